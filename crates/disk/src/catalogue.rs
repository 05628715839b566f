//! Disks by name: one for each family, and others that they are compared with. `docs/disk-models.md` says which figure
//! of each is from which document, which were fitted to the published performance, and which are estimates.

mod cloud;
mod hdd;
mod ssd;

use crate::parameters::Parameters;

/// A disk: its name, what it is like, and its parameters.
type Entry = (&'static str, &'static str, fn() -> Parameters);

const DISKS: &[Entry] = &[
    ("hdd-7200", "Seagate Constellation ES.3 SAS, 4 TB", hdd::constellation_es3),
    ("hdd-15k", "Seagate Cheetah 15K.7 SAS, 600 GB", hdd::cheetah_15k7),
    ("ssd-sata", "Intel SSD DC S4500, 960 GB, in steady state", ssd::intel_s4500),
    ("nvme", "Intel SSD DC P4500, 1 TB, in steady state", ssd::intel_p4500),
    ("gp3", "Amazon EBS gp3, 100 GiB, as it is without extra charge", cloud::gp3),
    ("pd-ssd", "Google SSD persistent disk, 500 GiB", cloud::pd_ssd),
    ("seagate-exos-x16", "Seagate Exos X16, 16 TB", hdd::exos_x16),
    ("seagate-cheetah-15k6", "Seagate Cheetah 15K.6 SAS, 450 GB", hdd::cheetah_15k6),
    ("samsung-850-evo", "Samsung SSD 850 EVO, 1 TB, new", ssd::samsung_850_evo),
    ("samsung-970-evo-plus", "Samsung SSD 970 EVO Plus, 1 TB, new", ssd::samsung_970_evo_plus),
    ("gp2", "Amazon EBS gp2, 100 GiB", cloud::gp2),
    ("azure-p10", "Azure Premium SSD P10, 128 GiB", cloud::azure_p10),
];

/// The parameters of a disk.
pub fn named(name: &str) -> Option<Parameters> {
    DISKS.iter().find(|(known, ..)| *known == name).map(|(_, _, parameters)| parameters())
}

/// The names of all disks; the first six stand for their families.
pub fn names() -> Vec<&'static str> {
    DISKS.iter().map(|(name, ..)| *name).collect()
}

/// Which product a disk is like.
pub fn product(name: &str) -> Option<&'static str> {
    DISKS.iter().find(|(known, ..)| *known == name).map(|(_, product, _)| *product)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_disk_can_be_made_and_is_read_as_it_was_written() {
        for name in names() {
            let parameters = named(name).unwrap();
            parameters.check().unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            let text = serde_json::to_string(&parameters).unwrap();
            assert_eq!(serde_json::from_str::<Parameters>(&text).unwrap(), parameters, "{text}");
            assert!(product(name).is_some());
        }
    }

    fn like(name: &str, changes: serde_json::Value) -> Result<Parameters, String> {
        Parameters::like(name, changes.as_object().unwrap()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn any_parameter_can_be_changed() {
        let Ok(Parameters::Hdd(slow)) = like("hdd-7200", json!({"rpm": 5400, "write-cache": {"bytes": 0}})) else {
            panic!("it is a drive with platters")
        };
        assert_eq!((slow.rpm, slow.write_cache.bytes, slow.heads), (5400.0, 0, 10));
        let points = json!({"seek": {"measured": [[1, 0.5], [1000, 9.0]]}});
        assert!(like("hdd-7200", points).is_ok(), "another kind of value takes the place of the first");
        assert!(like("samsung-850-evo", json!({"fast": null, "flash": {"suspend-us": null}})).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let wrong = |name: &str, changes| like(name, changes).unwrap_err();
        assert!(wrong("hdd", json!({})).starts_with("the disk is `hdd`; right would be: one of hdd-7200, hdd-15k"));
        let unknown = wrong("hdd-15k", json!({"rmp": 10000}));
        let begins = "`rmp` is not one of `hdd-15k`: unknown field `rmp`; right would be: one of `capacity-bytes`, ";
        assert!(unknown.starts_with(begins) && unknown.contains("`rpm`"), "{unknown}");
        let inner = wrong("hdd-15k", json!({"rpm": 7200, "queue": {"depth": 1.5}}));
        assert_eq!(inner, "`queue.depth` is 1.5; right would be: a whole number, up to 4294967295");
        let variant = wrong("hdd-15k", json!({"queue": {"order": "lifo"}}));
        assert_eq!(variant, "`queue.order` is \"lifo\"; right would be: `fifo` or `shortest-positioning`");
        let kind = wrong("hdd-15k", json!({"kind": "ssd"}));
        assert_eq!(kind, "`kind` is \"ssd\"; right would be: \"hdd\", what `hdd-15k` is");
        let seek = wrong("hdd-15k", json!({"seek": {"measured": [["near", 1.0]]}}));
        assert_eq!(seek, "`seek` is {\"measured\":[[\"near\",1.0]]}; right would be: a whole number, up to 4294967295");
        let range = wrong("hdd-15k", json!({"rpm": 0}));
        assert_eq!(range, "`rpm` is 0; right would be: from 1000 to 30000 per minute");
        let unit = wrong("nvme", json!({"flash": {"program-bytes": 5000}}));
        assert_eq!(unit, "`flash.program-bytes` is 5000; right would be: a multiple of 16384, up to 16777216 bytes");
        let rate = wrong("gp2", json!({"requests": {"burst-per-s": 10}}));
        assert_eq!(rate, "`requests.burst-per-s` is 10; right would be: from 300 to 10000000 per second");
        let tiny = json!({"drive-bytes": 1_u64 << 47, "heads": 1, "zones": {"published":
            {"count": 1, "outer-bytes-per-s": 62_000, "inner-bytes-per-s": 62_000}}});
        assert!(wrong("hdd-7200", tiny).contains("cylinders; right would be: so much that"));
        let more = wrong("hdd-15k", json!({"capacity-bytes": 1_u64 << 40}));
        assert!(more.ends_with("right would be: a multiple of 512, from 1048576 to 600127266816 bytes"), "{more}");
        assert!(wrong("gp3", json!({"capacity-bytes": 1000})).contains("a multiple of 512"));
    }
}
