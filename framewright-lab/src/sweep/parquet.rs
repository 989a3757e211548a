//! The table as Parquet: texts and whole numbers in dictionaries, values as doubles.
//!
//! A row group has a fixed number of rows, so its size in memory is limited, and the bytes do not depend on how the
//! rows arrived.

use std::{fs::File, io, path::Path, sync::Arc};

use csv::StringRecord;
use parquet::{
    basic::{Encoding, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        reader::{FileReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    record::Field,
    schema::types::{Type, TypePtr},
};

use super::{
    plan::Column,
    table::{AFTER, BEFORE, Each, Header, Row, Sink},
};

/// Rows of a row group.
const GROUP: usize = 1 << 17;

/// The table that is being written.
pub(super) struct Table {
    writer: SerializedFileWriter<File>,
    columns: Vec<Values>,
    rows: usize,
}

/// The values of a column in the present row group, and for each row whether it has one.
enum Values {
    Texts(Vec<ByteArray>, Vec<i16>),
    Whole(Vec<i64>, Vec<i16>),
    Numbers(Vec<f64>),
}

impl Table {
    pub(super) fn new(file: File, columns: &[Column]) -> io::Result<Self> {
        let text = || Values::Texts(Vec::new(), Vec::new());
        let whole = || Values::Whole(Vec::new(), Vec::new());
        let mut values = vec![text(), text(), text(), whole()];
        values.extend(columns.iter().map(|it| if it.is_whole { whole() } else { text() }));
        values.extend([text(), text(), text(), Values::Numbers(Vec::new())]);
        let schema = schema(columns).map_err(io::Error::other)?;
        // Values hardly repeat: a dictionary would only be tried.
        let properties = WriterProperties::builder()
            .set_column_dictionary_enabled(AFTER[3].into(), false)
            .set_column_encoding(AFTER[3].into(), Encoding::PLAIN)
            .build();
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties));
        Ok(Self { writer: writer.map_err(io::Error::other)?, columns: values, rows: 0 })
    }

    /// Writes the row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            match values {
                Values::Texts(texts, levels) => {
                    column.typed::<ByteArrayType>().write_batch(texts, Some(levels), None)?;
                    texts.clear();
                    levels.clear();
                }
                Values::Whole(numbers, levels) => {
                    column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?;
                    numbers.clear();
                    levels.clear();
                }
                Values::Numbers(numbers) => {
                    column.typed::<DoubleType>().write_batch(numbers, None, None)?;
                    numbers.clear();
                }
            }
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl Sink for Table {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        // Unsigned seeds keep their bits.
        let seed = row.seed.cast_signed();
        let figure = row.figure;
        let before = [row.run, row.machine, row.workload].map(Some).into_iter();
        let after = [&figure.name, &figure.unit, &figure.better].map(|text| Some(text.as_str()));
        let mut texts = before.chain(row.cells.iter().copied()).chain(after);
        for (at, values) in self.columns.iter_mut().enumerate() {
            match values {
                Values::Whole(numbers, levels) if at == 3 => {
                    numbers.push(seed);
                    levels.push(1);
                }
                Values::Numbers(numbers) => numbers.push(figure.value),
                Values::Texts(all, levels) => {
                    let text = texts.next().flatten();
                    levels.push(i16::from(text.is_some()));
                    all.extend(text.map(ByteArray::from));
                }
                Values::Whole(numbers, levels) => {
                    let number: Option<i64> = texts.next().flatten().and_then(|it| it.parse().ok());
                    levels.push(i16::from(number.is_some()));
                    numbers.extend(number);
                }
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.flush().map_err(io::Error::other) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.rows > 0 {
            self.flush().map_err(io::Error::other)?;
        }
        self.writer.close().map(drop).map_err(io::Error::other)
    }
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |name: &str, physical, logical, repetition| {
        let builder = Type::primitive_type_builder(name, physical);
        let field = builder.with_repetition(repetition).with_logical_type(logical).build()?;
        Ok::<TypePtr, ParquetError>(Arc::new(field))
    };
    // Levels say whether a row has a value, so all columns that have them are optional.
    let text =
        |name| field(name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL);
    let whole = |name, is_signed| {
        let logical = LogicalType::integer(64, is_signed);
        field(name, Physical::INT64, Some(logical), Repetition::OPTIONAL)
    };
    let mut fields = BEFORE[..3].iter().map(|name| text(name)).collect::<Result<Vec<_>, _>>()?;
    fields.push(whole(BEFORE[3], false)?);
    for Column { name, is_whole } in columns {
        fields.push(if *is_whole { whole(name, true)? } else { text(name)? });
    }
    for name in &AFTER[..3] {
        fields.push(text(name)?);
    }
    fields.push(field(AFTER[3], Physical::DOUBLE, None, Repetition::REQUIRED)?);
    Type::group_type_builder("sweep").with_fields(fields).build().map(Arc::new)
}

/// Calls `each` for each row.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let schema = reader.metadata().file_metadata().schema();
    let names: StringRecord = schema.get_fields().iter().map(|field| field.name()).collect();
    let header = Header::of(names)?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    for row in rows {
        let row = row.map_err(|error| error.to_string())?;
        let row: StringRecord = row.get_column_iter().map(|(_, field)| text(field)).collect();
        each(&header, &row)?;
    }
    Ok(())
}

fn text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => other.to_string(),
    }
}
