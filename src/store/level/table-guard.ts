import { crc32 } from 'node:zlib'
import { MalformedError } from './coding.ts'
import type { Finding, OpenTable } from './inspection.ts'
import { type DataBlock, type ReadBytes, readBlock, readTableIndex } from './table-file.ts'
import type { TableSums } from './table-sums.ts'

/** A table, and how much of it was looked at. */
interface GuardedTable {
  readonly table: OpenTable
  /** Undefined until something of the table is asked for. */
  blocks: readonly DataBlock[] | undefined
  /** Blocks that were looked at, by their place. */
  readonly seen: Set<number>
}

/**
 * Checks the tables that a database had when it was opened, each block before its first use: LevelDB serves a block that does
 * not match its checksum as if it did, and may say of a key in it that it is not there. The files are held open, so that
 * what was there is known also after a compaction has made other tables of them.
 */
export class TableGuard {
  readonly #damaged: Finding[] = []
  readonly #kept = new Set<string>()
  #tables: readonly GuardedTable[]

  constructor(tables: readonly OpenTable[]) {
    // What a compaction takes first is looked at first: it would make sound looking tables out of damaged ones.
    this.#tables = [...tables]
      .sort((a, b) => a.level - b.level || b.number - a.number)
      .map((table) => ({ table, blocks: undefined, seen: new Set<number>() }))
  }

  /**
   * Looks at whole tables, of so many bytes together, and says what is wrong with them.
   *
   * @param known - sums of tables that were checked before
   * @returns the sums of those that are sound
   */
  checkFirst(maxBytes: number, known: TableSums): { readonly findings: readonly Finding[]; readonly sums: TableSums } {
    const sums = new Map<string, number>()
    const left: GuardedTable[] = []
    let bytes = 0
    // Of one table at a time: new memory for each would take longer than to read and to sum it.
    let memory = new Uint8Array(0)
    for (const guarded of this.#tables) {
      const { table } = guarded
      bytes += table.sizeBytes
      if (bytes > maxBytes) {
        left.push(guarded)
        continue
      }
      // In one go: a read for each block would take longer than the checking.
      if (memory.length < table.sizeBytes) memory = new Uint8Array(table.sizeBytes)
      const file = table.read(0, table.sizeBytes, memory)
      const sum = crc32(file)
      const before = this.#damaged.length
      if (known.get(table.file) !== sum) this.#lookAtAll(guarded, file)
      if (this.#damaged.length > before) {
        left.push(guarded)
        continue
      }
      sums.set(table.file, sum)
      table.close()
    }
    this.#tables = left
    return { findings: this.#damaged, sums }
  }

  #lookAtAll(guarded: GuardedTable, file: Uint8Array): void {
    const read: ReadBytes = (offset, length) => file.subarray(offset, offset + length)
    guarded.blocks = this.#readIndex(guarded.table, read)
    for (let at = 0; at < guarded.blocks.length; at++) this.#look(guarded, at, read)
  }

  /** What is wrong with a part that may hold keys from `from` up to `to`, both included. */
  check(from: string, to: string): Finding | undefined {
    for (const guarded of this.#tables) {
      const { table, seen } = guarded
      if (table.largest < from || table.smallest > to || seen.size === guarded.blocks?.length) continue
      const blocks = this.#blocksOf(guarded)
      for (let at = firstUpTo(blocks, from); at < blocks.length; at++) {
        this.#look(guarded, at)
        if ((blocks[at]?.upTo ?? '') > to) break
      }
    }
    return this.#damaged.find((finding) => (finding.to ?? from) >= from && (finding.from ?? to) <= to)
  }

  /** Looks at all that was not asked for, and lets go of the files. Gives, after each step, what it found. */
  *checkRest(): Generator<readonly Finding[]> {
    for (const guarded of this.#tables) {
      let known = this.#damaged.length
      const blocks = this.#blocksOf(guarded)
      for (let at = 0; at < blocks.length; at++) {
        this.#look(guarded, at)
        yield this.#damaged.slice(known)
        known = this.#damaged.length
      }
      // An index that did not check has no blocks.
      if (blocks.length === 0) yield this.#damaged.slice(known)
    }
    this.close()
  }

  /** The whole file that a finding is about, the first time that it is asked for while it is open. */
  takeEvidence({ file }: Finding): Uint8Array | undefined {
    const table = this.#tables.find((guarded) => guarded.table.file === file)?.table
    if (table === undefined || this.#kept.has(file)) return undefined
    this.#kept.add(file)
    return table.read(0, table.sizeBytes)
  }

  /** Everything that was found so far. */
  get damaged(): readonly Finding[] {
    return this.#damaged
  }

  /** Whether anything is left to look at. */
  get isDone(): boolean {
    return this.#tables.length === 0
  }

  close(): void {
    for (const { table } of this.#tables) table.close()
    this.#tables = []
  }

  #blocksOf(guarded: GuardedTable): readonly DataBlock[] {
    guarded.blocks ??= this.#readIndex(guarded.table, guarded.table.read)
    return guarded.blocks
  }

  #readIndex(table: OpenTable, read: ReadBytes): readonly DataBlock[] {
    try {
      return readTableIndex(read, table.sizeBytes).blocks
    } catch (error) {
      const { file, smallest, largest } = table
      this.#damaged.push({ file, found: foundBy(error), from: smallest, to: largest })
      return []
    }
  }

  #look({ table, blocks, seen }: GuardedTable, at: number, read: ReadBytes = table.read): void {
    const block = blocks?.[at]
    if (block === undefined || seen.has(at)) return
    seen.add(at)
    try {
      readBlock(read, block, table.sizeBytes, 'a block')
    } catch (error) {
      this.#damaged.push({
        file: table.file,
        offset: block.offset,
        bytes: block.size,
        found: foundBy(error),
        from: blocks?.[at - 1]?.upTo ?? table.smallest,
        to: block.upTo,
      })
    }
  }
}

/** The first block that may hold `key`: their last keys rise. */
function firstUpTo(blocks: readonly DataBlock[], key: string): number {
  let [low, high] = [0, blocks.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((blocks[middle]?.upTo ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}

function foundBy(error: unknown): string {
  if (error instanceof MalformedError) return error.message
  // The disk itself does not give the bytes.
  return error instanceof Error ? `it could not be read: ${error.message}` : String(error)
}
