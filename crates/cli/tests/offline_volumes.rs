//! `headstart volume create`, `check`, `inspect` and `detach`: what they do, what they refuse, and that a
//! refusal writes nothing.

#[path = "support/loop_device.rs"]
mod loop_device;
#[path = "support/offline_volume.rs"]
mod volume;

#[path = "offline_volumes/damage.rs"]
mod damage;
#[path = "offline_volumes/devices.rs"]
mod devices;
#[path = "offline_volumes/forced.rs"]
mod forced;
#[path = "offline_volumes/sizes.rs"]
mod sizes;

use std::fs;

use headstart_units::request::Range;
use serde_json::{Value, json};
use volume::{TestVolume, failed, said};

const DISK_BYTES: u64 = 8 << 20;
const FLASH_BYTES: u64 = 8 << 20;

/// A disk of numbers and a volume.
fn created() -> TestVolume {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    fs::write(&volume.disk, contents()).unwrap();
    volume.succeed("create", &[]);
    volume
}

/// What the disk holds at first: a word of zeros here and there, as any disk.
fn contents() -> Vec<u8> {
    (0..DISK_BYTES / 8).flat_map(|word| (if word % 5 == 0 { 0 } else { word }).to_le_bytes()).collect()
}

#[test]
fn create_leaves_the_disk_alone_and_keeps_how_the_volume_is_served() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    fs::write(&volume.disk, contents()).unwrap();
    let text = volume.succeed("create", &["--mode", "write-through", "--policy", "none", "--ssd-size", "4MiB"]);
    assert!(text.contains("headstart volume serve --hdd") && text.contains("not written"), "{text}");
    assert!(fs::read(&volume.disk).unwrap() == contents());
    let (status, found) = volume.look("inspect");
    let of = &found["volume"];
    assert_eq!(status, 0, "{found:#}");
    assert_eq!((&of["mode"], &of["policy"], &of["detached"]), (&json!("write-through"), &json!("none"), &json!(true)));
    assert_eq!(of["flash_bytes"], json!(4 << 20));
    assert!(text.contains(of["uuid"].as_str().unwrap()));
    assert!(found["disk"]["identity"].as_str().unwrap().starts_with("file:"));
    assert_eq!(pair_serving(&volume), (true, 0));

    let volume = created();
    let (_, found) = volume.look("inspect");
    assert_eq!((&found["volume"]["mode"], &found["volume"]["policy"]), (&json!("write-back"), &json!("itransformer")));
    assert_eq!(pair_serving(&volume), (false, 1));
}

fn pair_serving(volume: &TestVolume) -> (bool, u32) {
    let serving = volume.pair().serving().unwrap().expect("there is a volume");
    (serving.write_through, serving.policy)
}

#[test]
fn create_overwrites_what_flash_holds_only_when_told_to() {
    let gpt = |volume: &TestVolume| volume_with(volume, 512, b"EFI PART\0\0\x01\0");
    let btrfs = |volume: &TestVolume| volume_with(volume, 65536 + 64, b"_BHRfS_M");
    let dirty = |volume: &TestVolume| {
        volume.succeed("create", &[]);
        volume.write_and_die(&[(2 << 20, vec![7; 4096])], &[]);
        fs::write(&volume.disk, contents()).unwrap();
    };
    type Fill<'a> = &'a dyn Fn(&TestVolume);
    let fills: [(Fill<'_>, &str); 3] = [(&gpt, "GPT"), (&btrfs, "btrfs"), (&dirty, "was not detached")];
    for (fill, name) in fills {
        let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
        fs::write(&volume.disk, contents()).unwrap();
        fill(&volume);
        let before = fs::read(&volume.flash).unwrap();
        failed(&volume.run("create", &[]), 125, &[name, "--force"]);
        assert!(fs::read(&volume.flash).unwrap() == before, "{name}: a refusal writes nothing");
        let text = volume.succeed("create", &["--force"]);
        assert!(text.contains("replaced") && text.contains(name), "{text}");
        // Detached, it may be created again.
        assert!(!volume.succeed("create", &[]).contains("replaced"));
        assert_eq!(volume.look("check").0, 0);
    }
}

fn volume_with(volume: &TestVolume, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    fs::File::options().write(true).open(&volume.flash).unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn create_refuses_a_disk_whose_flash_is_elsewhere() {
    let volume = created();
    volume.write_and_die(&[], &[]);
    let other = volume.file("other", FLASH_BYTES);
    let output = volume.run_on("create", &volume.disk, &other, &["--force"]);
    failed(&output, 125, &["guarded by another volume", "detach"]);
}

#[test]
fn check_tells_clean_from_dirty_and_detach_gives_the_disk_back() {
    let volume = created();
    assert_eq!(volume.look("check").0, 0);
    volume.write_and_die(&[(2 << 20, vec![7; 8192]), (0, vec![8; 512])], &[Range::new(4 << 20, 4096)]);
    let (disk, flash) = (fs::read(&volume.disk).unwrap(), fs::read(&volume.flash).unwrap());
    for verb in ["check", "inspect"] {
        let (status, found) = volume.look(verb);
        assert_eq!((status, &found["verdict"], &found["lost"]), (75, &json!("dirty"), &json!([])), "{found:#}");
        assert_eq!(found["dirty"], json!([[0, 512], [2 << 20, 8192], [4 << 20, 4096]]));
        assert_eq!((&found["dirty_bytes"], &found["extents_total"]), (&json!(12800), &json!(3)));
        assert_eq!(found["superblocks"].as_array().unwrap().len(), 2);
        let text = said(&volume.run(verb, &[]));
        assert!(text.contains("2097152-2105344") && text.contains("guard      on"), "{text}");
    }
    let (_, found) = volume.look("inspect");
    let kinds: Vec<&Value> = found["extents"].as_array().unwrap().iter().map(|extent| &extent["kind"]).collect();
    assert_eq!(kinds, ["payload", "payload", "zeros"]);
    assert!(!found["records"].as_array().unwrap().is_empty());
    assert!(volume.look("check").1.get("records").is_none());
    assert!(fs::read(&volume.disk).unwrap() == disk && fs::read(&volume.flash).unwrap() == flash);

    let text = volume.succeed("detach", &[]);
    assert!(text.contains("12.5KiB written back"), "{text}");
    let mut expected = contents();
    expected[..512].fill(8);
    expected[2 << 20..(2 << 20) + 8192].fill(7);
    expected[4 << 20..(4 << 20) + 4096].fill(0);
    assert!(fs::read(&volume.disk).unwrap() == expected);
    assert_eq!(volume.look("check").0, 0);
    assert!(volume.succeed("detach", &[]).contains("detached already"));
    // And on again.
    volume.write_and_die(&[(0, vec![9; 512])], &[]);
    assert_eq!(volume.look("check").0, 75);
    volume.succeed("detach", &[]);
    assert_eq!(fs::read(&volume.disk).unwrap()[..512], [9; 512]);
}

#[test]
fn emulated_devices_are_files_to_the_commands() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    let name = |profile: &str, path: &std::path::Path| format!("emulated:{profile}:{}", path.display()).into();
    let (disk, flash): (std::path::PathBuf, std::path::PathBuf) =
        (name("wd1602", &volume.disk), name("pm9a3", &volume.flash));
    for verb in ["create", "check", "inspect", "detach"] {
        let output = volume.run_on(verb, &disk, &flash, &[]);
        assert!(output.status.success(), "{verb}: {}", said(&output));
    }
}
