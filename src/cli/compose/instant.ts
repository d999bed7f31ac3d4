/** RFC 3339 UTC with milliseconds, as every `…_at` is written. */
export function instant(wallMs: number): string {
  return new Date(wallMs).toISOString()
}
