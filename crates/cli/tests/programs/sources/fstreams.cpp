// C++ file streams and std::filesystem. fstreams write|update|append|files|read
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace fs = std::filesystem;

static void require(const std::ios &stream, const char *what) {
    if (!stream) {
        std::cerr << what << " failed\n";
        std::exit(1);
    }
}

static void show(const std::string &name) {
    std::ifstream stream(name, std::ios::binary);
    std::uint64_t sum = 14695981039346656037u, count = 0;
    for (std::istreambuf_iterator<char> i(stream), end; i != end; ++i, ++count) {
        sum = (sum ^ static_cast<unsigned char>(*i)) * 1099511628211u;
    }
    std::cout << name << ' ' << count << ' ' << fs::file_size(name) << ' ' << std::hex << sum << std::dec << '\n';
}

static void write() {
    std::ofstream lines("lines");
    for (int k = 0; k < 9000; k++) {
        lines << "line " << k << (k % 100 ? "\n" : "");
        if (k % 100 == 0) {
            lines << std::endl;
        }
    }
    std::ofstream records;
    std::vector<char> buffer(3000);
    records.rdbuf()->pubsetbuf(buffer.data(), 3000);
    records.open("records", std::ios::binary | std::ios::trunc);
    for (std::uint32_t k = 0; k < 20000; k++) {
        records.write(reinterpret_cast<const char *>(&k), sizeof k);
    }
    // Larger than any buffer: writev within libstdc++.
    std::vector<char> large(300000, 'L');
    records << "head";
    records.write(large.data(), static_cast<std::streamsize>(large.size()));
    require(records, "write");
}

static void update() {
    std::fstream stream("records", std::ios::binary | std::ios::in | std::ios::out);
    for (std::uint32_t k = 0; k < 500; k++) {
        std::uint32_t value = 0;
        stream.seekg((k * 37 % 20000) * 4);
        stream.read(reinterpret_cast<char *>(&value), sizeof value);
        value ^= 0xffffffffu;
        stream.seekp(-4, std::ios::cur);
        stream.write(reinterpret_cast<const char *>(&value), sizeof value);
    }
    stream.seekp(450000);
    stream << "behind a hole";
    stream.seekg(-20, std::ios::end);
    std::string tail;
    stream >> tail;
    require(stream, "update");
    std::cout << tail.size() << ' ' << stream.tellg() << '\n';
}

static void append() {
    for (int k = 0; k < 30; k++) {
        std::ofstream stream("lines", std::ios::app);
        stream << "appended " << k << '\n';
        std::ifstream back("lines");
        back.seekg(0, std::ios::end);
        std::cout << back.tellg() << ' ';
        std::ofstream("short", std::ios::ate | std::ios::in | std::ios::out) << k;
        std::ofstream again("short", k == 0 ? std::ios::trunc : std::ios::app);
        again << k << ',';
    }
    std::cout << '\n';
}

static void files() {
    fs::create_directories("made/in/depth");
    fs::copy_file("records", "made/records", fs::copy_options::overwrite_existing);
    fs::copy("made", "copied", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    fs::resize_file("copied/records", 12345);
    fs::rename("copied/records", "copied/renamed");
    fs::remove("hard");
    fs::create_hard_link("lines", "hard");
    fs::permissions("copied/renamed", fs::perms::owner_read | fs::perms::owner_write);
    std::uintmax_t total = 0;
    for (const auto &entry : fs::recursive_directory_iterator(".")) {
        total += entry.is_regular_file() ? entry.file_size() : 1;
    }
    std::cout << total << ' ' << fs::hard_link_count("lines") << '\n';
    show("copied/renamed");
    show("made/records");
    fs::remove_all("made/in");
}

int main(int argc, char **argv) {
    const std::string form = argc == 2 ? argv[1] : "";
    form == "write" ? write() : form == "update" ? update() : form == "append" ? append() : form == "files" ? files() : void();
    for (const char *name : {"input", "lines", "records"}) {
        show(name);
    }
    std::ifstream lines("lines");
    std::string line, last;
    long count = 0;
    while (std::getline(lines, line)) {
        count++;
        last = line;
    }
    std::cout << count << ' ' << last << '\n';
}
