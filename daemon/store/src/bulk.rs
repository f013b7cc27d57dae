//! Many rows in few statements.

/// Splits rows into chunks of few different sizes, so that few different statements need preparing.
pub(super) fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = CHUNK_ROWS.into_iter().find(|size| *size <= rows.len())?;
        let (chunk, rest) = rows.split_at(size);
        rows = rest;
        Some(chunk)
    })
}

/// Sizes of chunks, falling; the last must be 1. The largest times the widest table (14) stays far below SQLite's
/// 32 766 parameters a statement.
const CHUNK_ROWS: [usize; 7] = [128, 32, 16, 8, 4, 2, 1];

/// `INSERT .. ON CONFLICT (key) DO UPDATE` of every row; the columns are the row's fields. The first one is of the key, and is not
/// set again: SQLite would write its entry in the index anew, though it stays as it was.
macro_rules! upsert {
    (
        $db:ident, $tx:ident, $rows:expr,
        $row:ident: $table:literal [$key:literal] $first:ident, $second:ident $(, $column:ident)*
    ) => {
        for chunk in chunks::<$row>(&$rows) {
            let mut query: QueryBuilder<$db> = QueryBuilder::new(concat!(
                "INSERT INTO ", $table, " (", stringify!($first), ", ", stringify!($second),
                $(", ", stringify!($column),)* ") "
            ));
            query.push_values(chunk, |mut values, row| {
                values.push_bind(&row.$first);
                values.push_bind(&row.$second);
                $(values.push_bind(&row.$column);)*
            });
            query.push(concat!(" ON CONFLICT (", $key, ") DO UPDATE SET ",
                stringify!($second), " = excluded.", stringify!($second),
                $(", ", stringify!($column), " = excluded.", stringify!($column),)*));
            query.build().execute(&mut *$tx).await?;
        }
    };
}
pub(super) use upsert;

#[cfg(test)]
mod tests {
    #[test]
    fn chunks_lose_nothing() {
        for len in [0_usize, 1, 7, 8, 39, 128, 300] {
            let rows: Vec<usize> = (0..len).collect();
            let joined: Vec<usize> = super::chunks(&rows).flatten().copied().collect();
            assert_eq!(joined, rows);
        }
    }
}
