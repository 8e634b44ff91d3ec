//! What is printed of a plan.

use headstart_insight::plan::{Plan, PlanRegion};
use headstart_policy::cost::region::gain_table::FileRegions;
use headstart_units::ByteSize;
use headstart_units::PAGE_BYTES;
use serde::Serialize;

/// See the module.
#[derive(Debug, Serialize)]
pub struct Figures {
    files: usize,
    file_bytes: u64,
    regions: u64,
    touched_regions: u64,
    pub flash_regions: u64,
    flash_bytes: u64,
    capacity_bytes: u64,
    ranks: u64,
    requests: u64,
    flash_share: f64,
    measured_s: Option<f64>,
    before_s: f64,
    after_s: f64,
}

impl Figures {
    /// Of a plan with regions of so many bytes.
    pub fn of(plan: &Plan, region_bytes: u64) -> Figures {
        let region_bytes = region_bytes / PAGE_BYTES * PAGE_BYTES;
        let regions = || plan.files.iter().flat_map(|file| &file.regions);
        let count = |is: fn(&&PlanRegion) -> bool| regions().filter(is).count() as u64;
        let sizes = || plan.files.iter().map(|file| file.size_bytes);
        let prediction = &plan.prediction;
        Figures {
            files: plan.files.len(),
            file_bytes: sizes().fold(0, u64::saturating_add),
            regions: sizes().map(|size_bytes| FileRegions { size_bytes, region_bytes }.count()).sum(),
            touched_regions: count(|region| region.reads + region.writes > 0),
            flash_regions: count(|region| region.place),
            flash_bytes: plan.placed_bytes(),
            capacity_bytes: plan.capacity_bytes,
            ranks: prediction.ranks,
            requests: prediction.requests,
            // Of a request that is cut each part counts.
            flash_share: (prediction.flash_requests as f64 / prediction.requests.max(1) as f64).min(1.0),
            measured_s: prediction.measured_s,
            before_s: prediction.before_s,
            after_s: prediction.after_s,
        }
    }

    /// As a table.
    pub fn print(&self) {
        let size = |bytes: u64| ByteSize(bytes).to_string();
        println!("{:<26}{:>10}{:>14}", "", "regions", "bytes");
        println!("{:<26}{:>10}{:>14}", format!("{} files", self.files), self.regions, size(self.file_bytes));
        println!("{:<26}{:>10}", "with requests", self.touched_regions);
        println!("{:<26}{:>10}{:>14}", "to flash", self.flash_regions, size(self.flash_bytes));
        println!("{:<26}{:>24}", "capacity", size(self.capacity_bytes));
        println!("{:<26}{:>10} of {} ranks", "requests", self.requests, self.ranks);
        println!("{:<26}{:>9.1}%", "  to flash, predicted", self.flash_share * 100.0);
        let measured = if self.measured_s.is_some() { "measured" } else { "predicted" };
        println!("{:<26}{:>9.2}s {measured}", "run time on the disks", self.before_s);
        let faster = self.before_s / self.after_s.max(f64::MIN_POSITIVE);
        println!("{:<26}{:>9.2}s predicted, {faster:.2} times as fast", "  with the plan placed", self.after_s);
    }
}
