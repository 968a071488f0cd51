-- Sensors that report their temperature: two queries over one stream.
-- examples/sql_job.py makes some readings and runs this file. With readings of your own:
--     shoal run examples/sql_job.sql --source csv:DIRECTORY --sink console:

CREATE TABLE readings (
    ts TIMESTAMP(3),
    sensor BIGINT,
    celsius DOUBLE,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'files', 'path' = 'readings', 'format' = 'csv', 'follow' = 'false');

-- the two warmest sensors of every half minute
INSERT INTO warmest
SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY celsius DESC) AS place
    FROM (
        SELECT sensor, window_end, AVG(celsius) AS celsius
        FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '30' SECOND))
        GROUP BY sensor, window_start, window_end
    )
)
WHERE place <= 2;

-- sensors that got warmer at least four times in a row, within a minute
INSERT INTO heating
SELECT * FROM readings MATCH_RECOGNIZE (
    PARTITION BY sensor ORDER BY ts
    MEASURES FIRST(Low.ts) AS began, COUNT(Up.celsius) AS steps, LAST(Up.celsius) AS celsius
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (Low Up{4,}) WITHIN INTERVAL '1' MINUTE
    DEFINE Up AS Up.celsius > PREV(Up.celsius)
);
