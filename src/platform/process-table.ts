import { readdirSync, readFileSync } from 'node:fs'
import process from 'node:process'
import { bootIdFromSysctl, entriesFromPs, environmentFromPs } from './process-table-ps.ts'

/** One process as the kernel tells it. `pid` and `start` together name a process for as long as the machine stays up. */
export interface ProcessEntry {
  readonly pid: number
  readonly ppid: number
  /** Session on Linux; process group where the system shows no session number (macOS). */
  readonly session: number
  /** Start time in the system's own words: clock ticks since boot on Linux, a date on macOS. Compared, never read. */
  readonly start: string
  /** Ended and not yet waited for: nothing of it runs any more. */
  readonly isZombie: boolean
}

/** Names a process beyond a reboot and beyond the reuse of its number. */
export interface ProcessName {
  readonly pid: number
  readonly start: string
  readonly bootId: string
}

/** The variable in a command's environment that marks every process of an attempt. */
export const attemptMark = 'NFLTR_ATTEMPT'

const isLinux = process.platform === 'linux'
let cachedBootId: string | undefined

/** Changes with every start of the machine, so that a process of an earlier one is never taken for a living one. */
export function bootId(): string {
  cachedBootId ??= isLinux ? readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : bootIdFromSysctl()
  return cachedBootId
}

/** Reads one process; `undefined` when there is none of that number. */
export function readProcess(pid: number): ProcessEntry | undefined {
  if (!isLinux) return entriesFromPs(pid)[0]
  const stat = readProcFile(pid, 'stat')
  return stat === undefined ? undefined : parseStat(pid, stat.toString('latin1'))
}

/** Every process of the machine that this user may see, in rising order of pid. Not atomic: a scan is a walk. */
export function listProcesses(): readonly ProcessEntry[] {
  if (!isLinux) return entriesFromPs()
  return readdirSync('/proc')
    .filter((name) => /^[1-9]\d*$/.test(name))
    .map(Number)
    .sort((a, b) => a - b)
    .flatMap((pid) => readProcess(pid) ?? [])
}

/** Whether exactly this process runs: number, start time and boot must match. A zombie does not run. */
export function isAlive(name: ProcessName): boolean {
  if (name.bootId !== bootId()) return false
  const entry = readProcess(name.pid)
  return entry !== undefined && entry.start === name.start && !entry.isZombie
}

/** This very process, for others to recognise it by. */
export function ownName(): ProcessName {
  return nameOf(process.pid)
}

/** The full name of a process that runs now. Throws where it does not: the caller holds its handle or is it. */
export function nameOf(pid: number): ProcessName {
  const entry = readProcess(pid)
  if (entry === undefined) throw new Error(`process ${pid} is not in the process table`)
  return { pid, start: entry.start, bootId: bootId() }
}

/** Whether the process carries the mark of this attempt in the environment it was started with. */
export function hasMark(pid: number, attemptId: string): boolean {
  const wanted = `${attemptMark}=${attemptId}`
  if (!isLinux) return environmentFromPs(pid).includes(wanted)
  const environ = readProcFile(pid, 'environ')
  if (environ === undefined) return false
  // Whole entries only: `t1` must not match `t10`, nor a value that contains the mark as text.
  return `\0${environ.toString('latin1')}\0`.includes(`\0${wanted}\0`)
}

/** What a scan may count as the attempt's besides what carries its mark. */
export interface Acquaintances {
  /** Processes seen as the attempt's before: pid → start time, of this boot. */
  readonly known: ReadonlyMap<number, string>
  /** Sessions whose leader was seen alive as one of the attempt's, by the process that scans now. */
  readonly sessions: ReadonlySet<number>
}

/**
 * What runs of an attempt: every process with its mark, the acquaintances that still run, the descendants of these, and
 * the sessions led by them. The calling process is never among them.
 *
 * A process that gave up its mark, its parent and its session before any scan saw it is not found: that is what
 * `scan_clean` does not claim.
 */
export function processesWithMark(
  attemptId: string,
  acquaintances: Acquaintances = { known: new Map(), sessions: new Set() },
): readonly ProcessEntry[] {
  const { known, sessions } = acquaintances
  const running = listProcesses().filter((entry) => !entry.isZombie && entry.pid !== process.pid)
  const members = new Map<number, ProcessEntry>()
  for (const entry of running) {
    if (known.get(entry.pid) === entry.start || sessions.has(entry.session) || hasMark(entry.pid, attemptId)) {
      members.set(entry.pid, entry)
    }
  }
  for (let hasGrown = true; hasGrown; ) {
    hasGrown = false
    for (const entry of running) {
      if (members.has(entry.pid) || !(members.has(entry.ppid) || members.has(entry.session))) continue
      members.set(entry.pid, entry)
      hasGrown = true
    }
  }
  return [...members.values()]
}

/** @see proc_pid_stat(5); the name in brackets may itself hold brackets and spaces, so fields count from the last one. */
function parseStat(pid: number, stat: string): ProcessEntry | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, ppid, , session] = fields
  const start = fields[19]
  if (state === undefined || ppid === undefined || session === undefined || start === undefined) return undefined
  return { pid, ppid: Number(ppid), session: Number(session), start, isZombie: state === 'Z' || state === 'X' }
}

/** Processes come and go while they are read, and those of other users stay closed: both read as "not there". */
function readProcFile(pid: number, name: string): Buffer | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`)
  } catch {
    return undefined
  }
}
