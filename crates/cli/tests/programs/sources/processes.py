"""Files shared by processes: children by `fork`, `spawn` or `forkserver`, descriptors passed on (`inherit`), `threads`, and what a
plain script does (`plain`). Every form prints sums of what it reads."""

import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

PART = 9001
PARTS = 40


def content(part, generation):
    return hashlib.shake_128(b"%d %d" % (part, generation)).digest(PART)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def write_parts(name, parts, generation):
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    for part in parts:
        os.pwrite(descriptor, content(part, generation), part * PART)
        assert os.pread(descriptor, PART, part * PART) == content(part, generation), (name, part)
    os.close(descriptor)


def check_part(arguments):
    name, part, generation = arguments
    with open(name, "rb") as file:
        file.seek(part * PART)
        return file.read(PART) == content(part, generation)


def by_multiprocessing(method):
    context = multiprocessing.get_context(method)
    for generation in range(2):
        children = [
            context.Process(target=write_parts, args=(method, range(child, PARTS, 4), generation)) for child in range(4)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0
        # The parent and the children of a pool read what the others wrote.
        with context.Pool(3) as pool:
            print(all(pool.map(check_part, [(method, part, generation) for part in range(PARTS)])))
        with open(method, "rb") as file:
            print(digest(file.read()))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(sum(pool.map(check_part, [(method, part, 1) for part in range(PARTS)])))


def inherit():
    name = "inherited"
    write_parts(name, range(PARTS), 0)
    with open(name, "r+b", buffering=0) as file:
        file.seek(5 * PART)
        # The child's reads and writes move the offset they share.
        script = "import os, sys; fd = int(sys.argv[1]); d = os.read(fd, 5000); os.write(fd, b'child' * 1000); print(len(d))"
        command = [sys.executable, "-c", script, str(file.fileno())]
        print(subprocess.run(command, pass_fds=[file.fileno()], capture_output=True, check=True).stdout, file.tell())
        file.write(b"parent" * 1000)
        file.flush()
        print(subprocess.run(["wc", "-c"], stdin=open(name, "rb"), capture_output=True, check=True).stdout)
        if os.fork() == 0:
            os.pwrite(file.fileno(), b"forked" * 1000, 20 * PART)
            os.set_inheritable(file.fileno(), True)
            of = f"of=/dev/fd/{file.fileno()}"
            os.execvp("dd", ["dd", "if=/dev/zero", of, "bs=100", "seek=3000", "count=30", "conv=notrunc", "status=none"])
        print(os.wait()[1])
        print(digest(os.pread(file.fileno(), PART * PARTS, 0)))
    with open("out", "wb") as out, open("log", "ab") as log:
        subprocess.run("seq 1 5000; echo oops >&2; cat", shell=True, stdin=open(name, "rb"), stdout=out, stderr=log)
        subprocess.run(["tee", "tee"], input=b"x" * 70000, stdout=out, stderr=log)
    pipe = subprocess.Popen(["cat", "out", "log"], stdout=subprocess.PIPE)
    print(digest(pipe.stdout.read()), pipe.wait())


def threads():
    descriptor = os.open("threads", os.O_RDWR | os.O_CREAT, 0o644)

    def work(part):
        for generation in range(3):
            os.pwritev(descriptor, [content(part, generation)[:4000], content(part, generation)[4000:]], part * PART)
            buffer = bytearray(PART)
            os.preadv(descriptor, [buffer], part * PART)
            assert buffer == content(part, generation)
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(work, range(PARTS))))
    os.fsync(descriptor)
    print(digest(os.pread(descriptor, PART * PARTS, 0)))


def plain():
    with open("text", "w") as file:
        for k in range(8000):
            print("line", k, file=file)
    with open("text", "r+") as file:
        lines = file.readlines()
        file.seek(0)
        file.writelines(reversed(lines))
        file.truncate()
    with open("text", "a+") as file:
        file.write("appended\n")
        file.seek(0)
        print(digest(file.read().encode()))
    with open("buffered", "w+b", buffering=700) as file:
        for k in range(300):
            file.seek(k * 997 % 100000)
            file.write(bytes([k % 256]) * 500)
            file.seek(k * 13)
            file.read(50)
        file.flush()
        print(file.tell(), os.stat("buffered").st_size)
    json.dump({str(k): list(range(k % 9)) for k in range(3000)}, open("values.json", "w"))
    pickle.dump({k: content(k, 9) for k in range(20)}, open("values.pickle", "wb"))
    print(len(json.load(open("values.json"))), len(pickle.load(open("values.pickle", "rb"))))
    shutil.copy("buffered", "copied")
    shutil.copytree(".", "tree", ignore=shutil.ignore_patterns("tree", "*.pyc"), dirs_exist_ok=True)
    shutil.move("copied", "tree/moved")
    with tempfile.NamedTemporaryFile(dir=".") as file, tempfile.TemporaryFile(dir=".") as nameless:
        for made in (file, nameless):
            made.write(content(1, 1) * 5)
            made.seek(100)
            print(digest(made.read()))
    with open("buffered", "rb") as source, open("sent", "wb") as target:
        shutil.copyfileobj(source, target)
    os.truncate("sent", 50000)
    os.link("sent", "linked")
    os.replace("sent", "replaced")
    print(sorted(entry.name for entry in os.scandir(".") if entry.is_file()))
    os.unlink("linked")


if __name__ == "__main__":
    form = sys.argv[1]
    {"inherit": inherit, "threads": threads, "plain": plain}.get(form, lambda: by_multiprocessing(form))()
