//! Seeds of random tests: each prints the one that failed, `SEED=n` repeats it, `CASES=n` runs n times as many.

use headstart_units::chance::Random;

pub fn run_many(cases: u64, salt: u64, run: impl Fn(u64) -> Vec<String>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut seeds = Random(salt);
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..cases * number("CASES").unwrap_or(1)).map(|_| seeds.next()).collect(),
    };
    for seed in seeds {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed))) {
            Ok(violations) => assert!(violations.is_empty(), "SEED={seed}: {}", violations.join("\n")),
            Err(panic) => {
                eprintln!("SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
