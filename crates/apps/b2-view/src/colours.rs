//! Turns numbers into colours.

use crate::items::ItemReader;

/// In most files, floats above this represent missing values.
pub const MISSING_ABOVE: f64 = 1e19;

/// A colour map. All but the last go from dark to light in equal steps, also in grey and to colour-blind people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Map {
    /// From dark blue over green to yellow
    #[default]
    Viridis,
    /// From blue over grey to yellow
    Cividis,
    /// From dark grey to white
    Grey,
    /// From blue over white to red, with 0 in the middle
    Diverging,
}

/// Stops of matplotlib's viridis.
const VIRIDIS: &[[f64; 3]] = &[
    [68., 1., 84.],
    [71., 44., 122.],
    [59., 81., 139.],
    [44., 113., 142.],
    [33., 144., 141.],
    [39., 173., 129.],
    [92., 200., 99.],
    [170., 220., 50.],
    [253., 231., 37.],
];
/// Stops of cividis (Nunez, Anderton and Renslow 2018), designed for red-green colour blindness.
const CIVIDIS: &[[f64; 3]] = &[
    [0., 32., 77.],
    [0., 51., 111.],
    [57., 72., 107.],
    [87., 92., 109.],
    [112., 113., 115.],
    [138., 135., 121.],
    [166., 157., 117.],
    [196., 181., 108.],
    [228., 207., 91.],
    [255., 234., 70.],
];
/// It does not contain black, which pictures use for "no colour".
const GREY: &[[f64; 3]] = &[[24., 24., 24.], [255., 255., 255.]];
/// ColorBrewer's RdBu, reversed.
const DIVERGING: &[[f64; 3]] = &[
    [5., 48., 97.],
    [33., 102., 172.],
    [67., 147., 195.],
    [146., 197., 222.],
    [209., 229., 240.],
    [247., 247., 247.],
    [253., 219., 199.],
    [244., 165., 130.],
    [214., 96., 77.],
    [178., 24., 43.],
    [103., 0., 31.],
];

impl Map {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Viridis, Self::Cividis, Self::Grey, Self::Diverging];

    fn stops(self) -> &'static [[f64; 3]] {
        match self {
            Self::Viridis => VIRIDIS,
            Self::Cividis => CIVIDIS,
            Self::Grey => GREY,
            Self::Diverging => DIVERGING,
        }
    }

    /// The colour at this share of the map, from 0 to 1.
    pub fn at(self, share: f64) -> [u8; 3] {
        self.colour_at(share * self.steps())
    }

    /// A colour for missing values that is far from all colours of the map.
    pub fn missing(self) -> [u8; 3] {
        match self {
            Self::Viridis | Self::Cividis => [222, 222, 222],
            Self::Grey => [230, 97, 0],
            Self::Diverging => [40, 40, 40],
        }
    }

    /// Number of steps from one stop to the next.
    fn steps(self) -> f64 {
        (self.stops().len() - 1) as f64
    }

    fn colour_at(self, place: f64) -> [u8; 3] {
        let stops = self.stops();
        let i = (place as usize).min(stops.len() - 2);
        let [from, to] = [stops[i], stops[i + 1]];
        std::array::from_fn(|c| (from[c] + (to[c] - from[c]) * (place - i as f64)).round() as u8)
    }
}

/// Maps values to colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub range: ColourRange,
    pub map: Map,
    /// Whether equal steps of colour are equal ratios of values.
    pub log: bool,
}

impl From<ColourRange> for Scale {
    fn from(range: ColourRange) -> Self {
        Self { range, map: Map::default(), log: false }
    }
}

/// The values of the first and the last colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColourRange {
    pub low: f64,
    pub high: f64,
}

impl std::str::FromStr for ColourRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected two numbers, such as -2,30");
        let (low, high) = text.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(wrong);
        let (low, high) = (number(low)?, number(high)?);
        if low <= high {
            Ok(Self { low, high })
        } else {
            Err(format!("'{text}': the first is above the second"))
        }
    }
}

impl Scale {
    /// The colour of a value; `None` (transparent) for missing values.
    pub fn colour(self, x: f64) -> Option<[u8; 3]> {
        if self.range.is_missing(x) { None } else { Some(self.map.colour_at(self.place(x))) }
    }

    /// The position of a value's colour between the stops, counted from 0.
    fn place(self, x: f64) -> f64 {
        self.share(x) * self.map.steps()
    }

    /// The position of a value in the range, from 0 to 1.
    pub fn share(self, x: f64) -> f64 {
        let ColourRange { low, high } = if self.log {
            // Values not above 0 have the first colour.
            let of = |x: f64| if x > 0.0 { x.ln() } else { f64::NEG_INFINITY };
            return ColourRange { low: of(self.range.low), high: of(self.range.high) }.share(of(x));
        } else {
            self.range
        };
        ColourRange { low, high }.share(x)
    }
}

impl ColourRange {
    /// Whether a value represents a missing one: NaN, infinity, or a huge value outside the range.
    pub fn is_missing(self, x: f64) -> bool {
        x.is_nan() || (x.abs() >= MISSING_ABOVE && !(self.low..=self.high).contains(&x))
    }

    fn share(self, x: f64) -> f64 {
        // Halve both values, since the difference may overflow.
        let span = self.high / 2.0 - self.low / 2.0;
        if span > 0.0 { ((x / 2.0 - self.low / 2.0) / span).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The range of numbers; `None` if there are none. Floats that represent missing values are ignored.
    pub fn of(numbers: &[f64], are_floats: bool) -> Option<Self> {
        let most = if are_floats { MISSING_ABOVE } else { f64::INFINITY };
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = numbers.iter().fold(none, |(low, high), x| {
            // NaN is never less.
            if x.abs() < most {
                (if *x < low { *x } else { low }, if *x > high { *x } else { high })
            } else {
                (low, high)
            }
        });
        (low <= high).then_some(Self { low, high })
    }

    /// The union of two ranges.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// Colours many numbers like [`Scale::colour`], but several times faster.
#[derive(Clone, Debug)]
pub struct Painter {
    scale: Option<Scale>,
    inks: Palette,
}

#[derive(Clone, Debug)]
enum Palette {
    /// For integers with few values, from `low` to `high`: the palette index of each value, and of no colour.
    Few { palette: Vec<Option<[u8; 3]>>, low: f64, high: f64, indices: Vec<u8>, clear: u8 },
    /// The colour of each of the [`STEPS`] steps between two stops, if it is the same at both ends of the step.
    Many(Vec<Option<[u8; 3]>>),
}

/// Steps between two stops. With this many, only one step in 50 contains two colours.
const STEPS: usize = 4096;
/// Maximum number of values whose colours are determined one by one.
const MAX_EXACT_VALUES: f64 = 1024.0;

impl Painter {
    pub fn new(simple: &ItemReader, scale: Option<Scale>) -> Self {
        let few = scale.zip(simple.limits()).and_then(|(scale, limits)| Self::few(scale, limits));
        let many = || {
            let map = scale.map_or(Map::default(), |scale| scale.map);
            let count = map.steps() as usize * STEPS;
            // In between, colours change in one direction.
            let end = |step: usize| map.colour_at(step as f64 / STEPS as f64);
            let steps = (0..count).map(|step| (end(step), end(step + 1)));
            let steps = steps.map(|(a, b)| (a == b).then_some(a));
            Palette::Many(steps.chain([Some(end(count))]).collect())
        };
        Self { scale, inks: few.unwrap_or_else(many) }
    }

    /// A palette of the integers from `least` to `most`; `None` if they have too many colours.
    fn few(scale: Scale, (least, most): (f64, f64)) -> Option<Palette> {
        let range = scale.range;
        // Numbers outside the range have the colour of the nearest end.
        let high = (range.high.floor() + 1.0).clamp(least, most);
        let low = (range.low.ceil() - 1.0).clamp(least, high);
        if high - low > MAX_EXACT_VALUES {
            return None;
        }
        let mut palette = Vec::new();
        let mut index = |colour: Option<[u8; 3]>| {
            let at = palette.iter().position(|there| *there == colour).unwrap_or(palette.len());
            if at == palette.len() {
                palette.push(colour);
            }
            u8::try_from(at).ok()
        };
        // Only the largest integers may have no colour.
        let clear = if most >= MISSING_ABOVE { index(None)? } else { 0 };
        let values = 0..=(high - low) as u32;
        let indices = values.map(|k| index(scale.colour(low + f64::from(k)))).collect::<Option<_>>()?;
        Some(Palette::Few { palette, low, high, indices, clear })
    }

    /// The palette that [`paint`](Self::paint) writes indices of; `None` if it writes red, green and blue, with black
    /// for no colour.
    pub fn palette(&self) -> Option<&[Option<[u8; 3]>]> {
        match &self.inks {
            Palette::Few { palette, .. } => Some(palette),
            Palette::Many(_) => None,
        }
    }

    /// Appends the pixels of these numbers.
    pub fn paint(&self, numbers: &[f64], out: &mut Vec<u8>) {
        let Some(scale) = self.scale else {
            return out.resize(out.len() + 3 * numbers.len(), 0);
        };
        match &self.inks {
            Palette::Few { low, high, indices, clear, .. } => out.extend(numbers.iter().map(|x| {
                if scale.range.is_missing(*x) {
                    return *clear;
                }
                indices.get((x.clamp(*low, *high) - low) as usize).copied().unwrap_or(0)
            })),
            Palette::Many(steps) => {
                let pixel = |x: &f64| {
                    if scale.range.is_missing(*x) {
                        return [0; 3];
                    }
                    let place = scale.place(*x);
                    let step = steps.get((place * STEPS as f64) as usize).copied().flatten();
                    step.unwrap_or_else(|| scale.map.colour_at(place))
                };
                out.extend(numbers.iter().flat_map(pixel));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_colours() {
        let range: ColourRange = "-2, 30".parse().unwrap();
        assert_eq!(range, ColourRange { low: -2.0, high: 30.0 });
        let scale = Scale::from(range);
        assert_eq!(scale.colour(-2.0), Some([68, 1, 84]));
        assert_eq!((scale.colour(30.0), scale.colour(1e6)), (Some([253, 231, 37]), Some([253, 231, 37])));
        assert_eq!(scale.colour(14.0), Some([33, 144, 141]), "the middle");
        for x in [f64::NAN, -1e34, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(scale.colour(x), None, "{x}");
        }
        assert_eq!(Scale::from(ColourRange { low: 1.0, high: 1.0 }).colour(1.0), Some([33, 144, 141]));
        let log = Scale { range: ColourRange { low: 1.0, high: 1e4 }, log: true, ..scale };
        assert_eq!(log.colour(100.0), Some([33, 144, 141]), "the middle");
        assert_eq!((log.colour(0.0), log.colour(-5.0)), (Some([68, 1, 84]), Some([68, 1, 84])));
        for map in Map::ALL {
            let far = (0..=1000).map(|k| {
                let there = map.at(f64::from(k) / 1000.0);
                there.iter().zip(map.missing()).map(|(a, b)| a.abs_diff(b)).max()
            });
            assert!(far.min() >= Some(Some(20)), "{map:?}: missing values look like others");
        }
        for text in ["", "1", "2,1", "a,b", "nan,1", "1,inf", "1,2,3"] {
            assert!(text.parse::<ColourRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn many_numbers_have_the_colours_of_each() {
        let check_scale = |dtype: &str, scale: Scale, numbers: &[f64], few: Option<bool>| {
            let range = scale;
            let painter = Painter::new(&ItemReader::new(&b2nd::Dtype::parse(dtype).unwrap()), Some(scale));
            assert_eq!(
                painter.palette().is_some(),
                few.unwrap_or(painter.palette().is_some()),
                "{dtype} {range:?}"
            );
            let mut out = Vec::new();
            painter.paint(numbers, &mut out);
            let colours: Vec<_> = match painter.palette() {
                Some(palette) => out.iter().map(|k| palette[usize::from(*k)]).collect(),
                None => out.chunks(3).map(|c| (c != [0; 3]).then(|| c.try_into().unwrap())).collect(),
            };
            assert_eq!(
                colours,
                numbers.iter().map(|x| range.colour(*x)).collect::<Vec<_>>(),
                "{dtype} {range:?}"
            );
        };
        let check = |dtype: &str, range: ColourRange, numbers: &[f64], few: bool| {
            check_scale(dtype, range.into(), numbers, Some(few));
            for map in Map::ALL {
                // Others may have fewer colours.
                check_scale(dtype, Scale { range, map, log: false }, numbers, None);
            }
            if range.low > 0.0 {
                check_scale(dtype, Scale { range, map: Map::Grey, log: true }, numbers, None);
            }
        };
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e19, -1e34, 1e300, 0.0, -0.0];
        for (low, high) in
            [(0.0, 1.0), (-2.5, 7.25), (1e-300, 1e300), (-f64::MAX, f64::MAX), (3.0, 3.0), (-1e20, 1e20)]
        {
            let range = ColourRange { low, high };
            let numbers: Vec<f64> =
                (-100..100_100).map(|k| low + (high / 1e5 - low / 1e5) * f64::from(k)).collect();
            check("<f8", range, &[&numbers, &special[..]].concat(), false);
        }
        let bytes: Vec<f64> = (0..256).map(f64::from).collect();
        for (low, high) in
            [(0.0, 255.0), (-3.7, 90.5), (100.2, 100.4), (-9.0, -8.0), (300.0, 400.0), (0.0, 0.0)]
        {
            check("|u1", ColourRange { low, high }, &bytes, true);
            check("|b1", ColourRange { low, high }, &[0.0, 1.0], true);
        }
        let shorts: Vec<f64> = (-32768..32768).map(f64::from).collect();
        check("<i2", ColourRange { low: -40.0, high: 70.0 }, &shorts, true);
        check("<i2", ColourRange { low: -32768.0, high: 32767.0 }, &shorts, false);
        check("<i2", ColourRange { low: 0.0, high: 1000.0 }, &shorts, false);
        let longs = [0.0, 5.0, 99.0, 100.0, 101.0, 9e18, 1e19, 1.8e19];
        check("<u8", ColourRange { low: 5.0, high: 100.0 }, &longs, true);
        check("<u8", ColourRange { low: 5.0, high: 1.2e19 }, &longs, false);
    }
}
