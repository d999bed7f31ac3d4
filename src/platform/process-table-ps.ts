import { execFileSync } from 'node:child_process'
import type { ProcessEntry } from './process-table.ts'

/**
 * The process table of systems without /proc (macOS), read with `ps`. Start times have a resolution of one second
 * there, and sessions show no number, so that process groups stand in for them: evidence from here is never more than
 * `scan_clean` (rule 40).
 */
export function entriesFromPs(pid?: number): readonly ProcessEntry[] {
  const rows = run('/bin/ps', [
    ...(pid === undefined ? ['-ax'] : ['-p', String(pid)]),
    '-o',
    'pid=,ppid=,pgid=,state=,lstart=',
  ])
  return rows.split('\n').flatMap((row) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+?)\s*$/.exec(row)
    if (match === null) return []
    const [, id, ppid, group, state = '', start = ''] = match
    return [{ pid: Number(id), ppid: Number(ppid), session: Number(group), start, isZombie: state.startsWith('Z') }]
  })
}

/** The words of a process's command line and environment; empty where this user may not see them. */
export function environmentFromPs(pid: number): readonly string[] {
  return run('/bin/ps', ['-E', '-ww', '-p', String(pid), '-o', 'command='])
    .trim()
    .split(/\s+/)
}

export function bootIdFromSysctl(): string {
  return run('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']).trim()
}

/** `ps` exits 1 where no process matches: that is an empty answer, not a failure. */
function run(program: string, args: readonly string[]): string {
  try {
    return execFileSync(program, [...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 64 << 20,
    })
  } catch (error) {
    if (typeof error === 'object' && error !== null && 'status' in error && error.status === 1) return ''
    throw error
  }
}
