import { readFileSync, writeFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'

/**
 * Sums over whole tables, by file name: of those that were checked block by block once. A table never changes, and Node has a
 * sum over all of it an order of magnitude faster than one over each of its blocks.
 */
export type TableSums = ReadonlyMap<string, number>

/** What the file says; nothing where there is none, or it is not as it was written: then the tables are checked again. */
export function readSums(path: string): TableSums {
  try {
    const [text = '', check] = readFileSync(path, 'utf8').split('\n')
    if (String(crc32(text)) !== check) return new Map()
    return new Map(Object.entries(JSON.parse(text) as Record<string, number>))
  } catch {
    return new Map()
  }
}

/** Not synced: what is lost of it is checked again. */
export function writeSums(path: string, sums: TableSums): void {
  const text = JSON.stringify(Object.fromEntries(sums))
  try {
    writeFileSync(path, `${text}\n${crc32(text)}\n`, { mode: 0o600 })
  } catch {
    // A full disk is told by whoever needs it.
  }
}
