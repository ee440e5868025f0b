//! Days as people write them.

/// Milliseconds since 1970 as `2026-11-21 19:46 UTC` (Hinnant, "chrono-compatible low-level date algorithms").
pub(crate) fn date(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (days, minute) = (minutes / 1440, minutes % 1440);
    // Years begin in March, so that the odd day is the last; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_ms, want) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399_000, "2000-02-28 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (951_868_800_000, "2000-03-01 00:00 UTC"),
            (1_795_290_380_000, "2026-11-21 19:46 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(unix_ms), want);
        }
        assert!(!date(u64::MAX).is_empty());
    }
}
