//! The demand curves that the autoscaling test plays.

pub struct Curve {
    /// Name of the picture's file.
    pub name: &'static str,
    /// Title of the picture.
    pub title: &'static str,
    /// Duration in seconds.
    pub seconds: u32,
    /// The number of slots needed at a second; `None` if the application reports no demand then.
    pub demand: fn(u32) -> Option<u32>,
}

pub const CURVES: [Curve; 4] = [
    Curve {
        name: "burst",
        title: "A burst: 200 slots of work at once, for four minutes",
        seconds: 600,
        demand: |second| Some(if (60..300).contains(&second) { 200 } else { 0 }),
    },
    Curve {
        name: "ramp",
        title: "A ramp: up to 200 slots over eight minutes, and down again",
        seconds: 1_200,
        demand: |second| {
            Some(match second {
                60..540 => (second - 60) * 200 / 480,
                540..1_020 => (1_020 - second) * 200 / 480,
                _ => 0,
            })
        },
    },
    Curve {
        name: "sawtooth",
        title: "A sawtooth: 160 slots, falling to none each 50 seconds",
        seconds: 600,
        demand: |second| Some(160 - second % 50 * 160 / 50),
    },
    Curve {
        name: "night",
        title: "A night: work ends, the application is silent for twelve minutes, and ends its day",
        seconds: 1_500,
        demand: |second| match second {
            0..300 => Some(120),
            300..600 => Some(40),
            600..1_320 => None,
            _ => Some(0),
        },
    },
];
