//! A volume as a file, a loop device made of it, and file systems on that.

#[path = "volume_file/flash_pulled.rs"]
mod flash_pulled;
#[path = "volume_file/moosefs.rs"]
mod moosefs;
#[path = "volume_file/trees.rs"]
mod trees;
#[path = "support/volume.rs"]
mod volume;
