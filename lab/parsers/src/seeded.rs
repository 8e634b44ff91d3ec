//! Bytes from seeds.

/// Runs `check` on bytes from `count` seeds, at most `length_max` of them each.
pub fn cases(count: u64, length_max: usize, check: fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("CASES").unwrap_or(1),
    };
    for seed in seeds {
        let bytes = bytes_of(seed, length_max);
        if let Err(panic) = std::panic::catch_unwind(|| check(&bytes)) {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// splitmix64; half of the bytes are small, as those decide.
fn bytes_of(seed: u64, length_max: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let length = next() as usize % (length_max + 1);
    (0..length)
        .map(|_| {
            let word = next();
            if word & 256 == 0 { word as u8 } else { word as u8 % 20 }
        })
        .collect()
}
