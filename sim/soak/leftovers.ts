import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { listProcesses } from '../../src/platform/process-table.ts'

export interface FoundProcess {
  readonly pid: number
  readonly command: string
}

/**
 * Running processes, but this one, that have anything to do with a folder: it is in their command line or environment,
 * they are in it, or they have something in it open. A keeper shows in its open files alone.
 */
export function processesTouching(folder: string): readonly FoundProcess[] {
  return listProcesses().flatMap(({ pid, isZombie }) => {
    if (pid === process.pid || isZombie || !touches(pid, folder)) return []
    return [{ pid, command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim().slice(0, 300) }]
  })
}

function touches(pid: number, folder: string): boolean {
  if (['cmdline', 'environ'].some((file) => read(`/proc/${pid}/${file}`).includes(folder))) return true
  if (link(`/proc/${pid}/cwd`).startsWith(folder)) return true
  return entries(`/proc/${pid}/fd`).some((fd) => link(`/proc/${pid}/fd/${fd}`).startsWith(folder))
}

/** Files below a folder, as paths relative to it. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
}

/** Control groups that were made for these attempts and are still there. */
export function controlGroupsOf(attemptIds: ReadonlySet<string>): readonly string[] {
  const own = read('/proc/self/cgroup')
    .split('\n')
    .flatMap((line) => /^\d+:([^:]*):(.*)$/.exec(line)?.slice(1, 3).join('\0') ?? [])
  return own.flatMap((membership) => {
    const [controller = '', path = ''] = membership.split('\0')
    const mounts = controller === '' ? ['', 'unified'] : [controller]
    return mounts.flatMap((mount) => {
      const folder = join('/sys/fs/cgroup', mount, path)
      return entries(folder)
        .filter((name) => name.startsWith('nfltr-') && attemptIds.has(name.slice('nfltr-'.length)))
        .map((name) => join(folder, name))
    })
  })
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

function entries(path: string): readonly string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
