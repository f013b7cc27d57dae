/**
 * The objects of the REST API, as the API's document has them.
 *
 * Bytes are counted in bytes, bandwidth in bytes per second, durations in seconds unless the name says otherwise, times as RFC 3339 UTC.
 */

export type * from "./api.gen";
