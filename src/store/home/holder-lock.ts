import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { encodeRecord } from '../../core/record-json.ts'
import { createFileExclusively, ensurePrivateFolder, errorCode } from '../../platform/files.ts'
import { bootId, isAlive, ownName, type ProcessName } from '../../platform/process-table.ts'
import type { Held, Holder } from '../../ports/home.ts'
import { namesIn, readRecord, writeRecord } from './record-file.ts'

/**
 * A lock that names its holder and outlives nobody. Node has no `flock`, and a lock file that is removed and made again
 * has a race: two processes see the same dead holder, one takes over, the other removes the new lock. So the lock is a
 * row of numbered files: whoever creates the next number exclusively has it, no file is ever taken away from under its
 * holder, and a release is written into the file. Only the newest number counts; the one before it is kept, so that a
 * reader of the folder never finds it empty in between.
 */
export interface LockPlace {
  readonly folder: string
  /** Files are called `<name>.<number>`. */
  readonly name: string
}

interface LockFile extends ProcessName {
  readonly host: string
  readonly sinceMs: number
  readonly released?: number
}

const kind = {
  name: 'the holder of a lock',
  shape: { pid: 'number', start: 'string', bootId: 'string', host: 'string', sinceMs: 'number', released: 'number?' },
} as const

/** How often a lost race is run again before giving up; each loss means that somebody else got further. */
const attemptsMax = 20

/**
 * Takes a lock for this process, until released or until the process ends.
 *
 * @throws {NfltrError} `key_held` with `details` `pid`, `host`, `since`
 */
export async function takeLock(place: LockPlace, what: string): Promise<Held> {
  await ensurePrivateFolder(place.folder)
  const mine: LockFile = { ...ownName(), host: hostname(), sinceMs: Date.now() }
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const newest = (await numbersOf(place)).at(-1) ?? 0
    const holder = newest === 0 ? undefined : await livingHolder(place, newest)
    if (holder !== undefined) throw held(place, { what, holder, number: newest })
    const number = newest + 1
    if (!(await create(place, { number, file: mine }))) continue
    const numbers = await numbersOf(place)
    if (numbers.some((other) => other > number)) {
      await rm(pathOf(place, number), { force: true })
      continue
    }
    for (const old of numbers.filter((other) => other < number - 1)) await rm(pathOf(place, old), { force: true })
    return { release: () => release(place, { number, file: mine }) }
  }
  throw new NfltrError('key_held', `The lock of ${what} kept changing hands.`)
}

/** The living process that holds a lock now. */
export async function holderOf(place: LockPlace): Promise<Holder | undefined> {
  const newest = (await numbersOf(place)).at(-1)
  return newest === undefined ? undefined : await livingHolder(place, newest)
}

async function livingHolder(place: LockPlace, number: number): Promise<Holder | undefined> {
  const file = await readRecord<LockFile>(pathOf(place, number), kind)
  if (file === undefined || file.released !== undefined || isGone(file)) return undefined
  const { pid, host, sinceMs } = file
  return { pid, host, sinceMs }
}

/**
 * Another boot of the same host has ended all its processes. Of a process on another host nothing can be known (a home
 * on a network disk): it counts as alive.
 */
export function isGone(file: ProcessName & { readonly host: string }): boolean {
  if (file.bootId !== bootId()) return file.host === hostname()
  return !isAlive(file)
}

async function numbersOf(place: LockPlace): Promise<readonly number[]> {
  const numbers = (await namesIn(place.folder)).flatMap((name) => {
    const [, number] = name.startsWith(`${place.name}.`) ? (/\.(\d{1,15})$/.exec(name) ?? []) : []
    return number !== undefined && name === `${place.name}.${number}` ? [Number(number)] : []
  })
  return numbers.sort((a, b) => a - b)
}

async function create(place: LockPlace, entry: { number: number; file: LockFile }): Promise<boolean> {
  try {
    await createFileExclusively(pathOf(place, entry.number), encodeRecord(entry.file))
    return true
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'already_exists') return false
    throw error
  }
}

async function release(place: LockPlace, entry: { number: number; file: LockFile }): Promise<void> {
  try {
    await writeRecord(pathOf(place, entry.number), { ...entry.file, released: Date.now() })
  } catch (error) {
    // The whole home is gone: nothing is left to be released.
    if (errorCode(error) !== 'ENOENT') throw error
  }
}

function pathOf(place: LockPlace, number: number): string {
  return join(place.folder, `${place.name}.${number}`)
}

function held(place: LockPlace, found: { what: string; holder: Holder; number: number }): NfltrError {
  const { what, holder, number } = found
  const isElsewhere = holder.host !== hostname()
  const since = new Date(holder.sinceMs).toISOString()
  return new NfltrError(
    'key_held',
    `${what} is in use by process ${holder.pid}${isElsewhere ? ` on ${holder.host}` : ''} since ${since}.`,
    {
      hint: isElsewhere
        ? `If nothing of nfltr runs on ${holder.host} any more, remove ${pathOf(place, number)}.`
        : 'Wait until it ends, or end it.',
      details: { pid: holder.pid, host: holder.host, since: new Date(holder.sinceMs).toISOString() },
    },
  )
}
