import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../../src/core/errors.ts'
import type { JournalRecord } from '../../src/core/journal.ts'
import { createKeepers } from '../../src/keeper/client.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Keeper, KeeperLaunch, Keepers } from '../../src/ports/keepers.ts'
import { removeFolder } from '../support/remove-folder.ts'

/** A home of its own with keepers in it; disposing it ends whatever still runs there. */
export interface KeeperHome extends AsyncDisposable {
  readonly path: string
  readonly attemptsDir: string
  readonly keepers: Keepers
}

export async function keeperHome(
  options: { readonly under?: string; readonly name?: string } = {},
): Promise<KeeperHome> {
  const base = await mkdtemp(join(options.under ?? tmpdir(), 'nk-'))
  const path = options.name === undefined ? base : join(base, options.name)
  const attemptsDir = join(path, 'node', 'attempts')
  const keepers = keepersAt(path)
  return {
    path,
    attemptsDir,
    keepers,
    async [Symbol.asyncDispose]() {
      for (const { attemptId } of await keepers.find()) await keepers.sweep(attemptId)
      // A keeper exits right after its last record; until then it holds its files open, and their room on the disk.
      await removeFolder(base)
    },
  }
}

export function keepersAt(home: string): Keepers {
  return createKeepers({ attemptsDir: join(home, 'node', 'attempts'), runDir: join(home, 'run'), clock: systemClock() })
}

/** The attempt of a test. Sweeps look through the whole machine, so it is this process's alone. */
export const a1: string = `a1-${process.pid}`

/** A launch of a shell script with nothing else in its environment but a search path. */
export function shell(script: string, more: Partial<KeeperLaunch> = {}): KeeperLaunch {
  return {
    attemptId: a1,
    program: '/bin/sh',
    args: ['-c', script],
    cwd: tmpdir(),
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    secretEnv: {},
    answerBoundMs: 60_000,
    ...more,
  }
}

export interface Heard {
  readonly records: readonly JournalRecord[]
  readonly error: NfltrError | undefined
}

/** Reads to the end, or to the first record that `until` accepts. */
export async function hear(
  keeper: Keeper,
  options: { readonly fromOffset?: number; readonly until?: (record: JournalRecord) => boolean } = {},
): Promise<Heard> {
  const records: JournalRecord[] = []
  try {
    for await (const record of keeper.records({
      fromOffset: options.fromOffset ?? 0,
      signal: new AbortController().signal,
    })) {
      records.push(record)
      if (options.until?.(record) === true) break
    }
  } catch (error) {
    if (error instanceof NfltrError) return { records, error }
    throw error
  }
  return { records, error: undefined }
}

export function isLine(text: string): (record: JournalRecord) => boolean {
  return (record) => record.type === 'stdout' && Buffer.from(record.line).toString('utf8') === text
}

export function lines(heard: Heard): readonly string[] {
  return heard.records.flatMap((record) =>
    record.type === 'stdout' ? [Buffer.from(record.line).toString('utf8')] : [],
  )
}

export function only<T extends JournalRecord['type']>(heard: Heard, type: T): readonly (JournalRecord & { type: T })[] {
  return heard.records.filter((record): record is JournalRecord & { type: T } => record.type === type)
}

/** The one record of a type; fails where there is none. */
export function the<T extends JournalRecord['type']>(heard: Heard, type: T): JournalRecord & { type: T } {
  const [record] = only(heard, type)
  if (record === undefined) throw new Error(`no ${type} among ${heard.records.map((each) => each.type).join(', ')}`)
  return record
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
  } catch (error) {
    return error instanceof NfltrError ? error.code : `not ours: ${String(error)}`
  }
  return 'no error'
}

export const text = (value: string): Uint8Array => Buffer.from(value)
