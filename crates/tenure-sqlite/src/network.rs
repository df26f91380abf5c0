//! Known network file systems, whose locks and shared memory do not work between machines.
//!
//! FUSE is not among them, since the file system behind it cannot be identified.

use std::path::Path;

/// The magic numbers of `statfs(2)`.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x00C3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x564C, "NCP"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "FhGFS"),
];

/// The name of the network file system with this magic number.
pub(crate) fn network_name(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

/// The name of the network file system that `path` is on, if it is on one.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn network_fs(path: &Path) -> Option<&'static str> {
    // Where the field is signed, numbers above 2^31 are sign-extended: only the low half counts.
    rustix::fs::statfs(path).ok().and_then(|fs| network_name(fs.f_type as u32))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn network_fs(_: &Path) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_pass() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(-0x00AC_B2BE_i64 as u32), Some("CIFS"), "as a signed word gives it");
        assert_eq!(network_name(0x0102_1997), Some("9p"));
        let ext4_btrfs_xfs_tmpfs_overlay_zfs_fuse =
            [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0x6573_5546];
        for local in ext4_btrfs_xfs_tmpfs_overlay_zfs_fuse {
            assert_eq!(network_name(local), None, "{local:#x}");
        }
    }
}
