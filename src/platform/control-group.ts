import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import process from 'node:process'

/**
 * A Linux control group that holds all processes of one attempt from its launch on. A process cannot leave it by
 * forking, by a new session or by giving up its environment, which makes an empty group the strongest proof there is.
 *
 * @see cgroups(7); v2 where this user may create a group below its own, else the v1 hierarchies `pids` and `freezer`.
 */
export type ControlGroup = string

/**
 * Creates a group below the calling process's own.
 *
 * @returns the group's folder, or `undefined` where this user or system has no way to make one
 */
export function createControlGroup(name: string): ControlGroup | undefined {
  if (process.platform !== 'linux') return undefined
  for (const parent of ownGroups()) {
    const group = join(parent, name)
    try {
      mkdirSync(group)
    } catch {
      continue
    }
    // Making a folder is not being allowed to move processes: try it here, where nothing depends on it yet.
    if (tryMove(group, process.pid) && tryMove(parent, process.pid)) return group
    removeControlGroup(group)
  }
  return undefined
}

/**
 * Runs `launch` with the calling process inside the group, so that what it starts is born there; then moves back.
 * `launch` must start its process before it returns.
 *
 * @returns what `launch` returned, and whether the group can serve as proof: it cannot where moving in or out failed
 */
export function launchInside<T>(
  group: ControlGroup,
  launch: () => T,
): { readonly launched: T; readonly isProof: boolean } {
  const isIn = tryMove(group, process.pid)
  let isOut = false
  try {
    const launched = launch()
    isOut = tryMove(join(group, '..'), process.pid)
    return { launched, isProof: isIn && isOut }
  } finally {
    if (!isOut) tryMove(join(group, '..'), process.pid)
  }
}

/** Whether a group can be looked into here: it exists, or existed where its parent still does and holds groups. */
export function controlGroupExists(group: ControlGroup): boolean {
  return existsSync(join(group, '..', 'cgroup.procs'))
}

/** Processes of the group and of the groups below it. A group that no longer exists was empty when it was removed. */
export function processesInside(group: ControlGroup): readonly number[] {
  return [...groupsBelow(group), group].flatMap((folder) =>
    read(join(folder, 'cgroup.procs'))
      .split('\n')
      .filter((line) => line !== '')
      .map(Number),
  )
}

/** Sends SIGKILL to everything inside, in one step where the kernel offers that. Repeat until the group is empty. */
export function killInside(group: ControlGroup): void {
  if (existsSync(join(group, 'cgroup.kill'))) {
    write(join(group, 'cgroup.kill'), '1')
    return
  }
  // Version 1 has no such step: keep the group from forking or running on while its members are killed one by one.
  write(join(group, 'pids.max'), '0')
  write(join(group, 'freezer.state'), 'FROZEN')
  for (const pid of processesInside(group)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Ended meanwhile.
    }
  }
  write(join(group, 'freezer.state'), 'THAWED')
}

/** Removes an empty group and the empty groups below it; leaves one that still holds a process. */
export function removeControlGroup(group: ControlGroup): void {
  for (const folder of [...groupsBelow(group), group]) {
    try {
      rmdirSync(folder)
    } catch {
      // Not empty yet, or gone already: the next sweep finds it by its name in the journal.
    }
  }
}

/** Folders of this process's own groups that may bear a child, most telling hierarchy first. */
function ownGroups(): readonly string[] {
  const mounts = read('/proc/self/mountinfo').split('\n').flatMap(parseMount)
  const memberships = read('/proc/self/cgroup')
    .split('\n')
    .map((line) => /^\d+:([^:]*):(.*)$/.exec(line))
  return ['', 'pids', 'freezer'].flatMap((controller) => {
    const path = memberships.find((match) => match?.[1]?.split(',').includes(controller))?.[2]
    const mount = mounts.find((candidate) => candidate.controllers.includes(controller))
    if (path === undefined || mount === undefined || path.startsWith('/..')) return []
    // Inside a container the mount shows a part of the hierarchy only: `root` is where it begins.
    const below = path.startsWith(mount.root) ? path.slice(mount.root.length) : path
    return [join(mount.point, below)]
  })
}

function parseMount(line: string): readonly { point: string; root: string; controllers: readonly string[] }[] {
  const [before = '', after = ''] = line.split(' - ')
  const [, , , root = '/', point = ''] = before.split(' ')
  const [kind, , options = ''] = after.split(' ')
  if (kind === 'cgroup2') return [{ point, root: root === '/' ? '' : root, controllers: [''] }]
  if (kind === 'cgroup') return [{ point, root: root === '/' ? '' : root, controllers: options.split(',') }]
  return []
}

/** Deepest first, so that they can be removed in order. */
function groupsBelow(group: ControlGroup): readonly string[] {
  try {
    return readdirSync(group, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap((entry) => [...groupsBelow(join(group, entry.name)), join(group, entry.name)])
  } catch {
    return []
  }
}

function tryMove(group: ControlGroup, pid: number): boolean {
  try {
    writeFileSync(join(group, 'cgroup.procs'), String(pid))
    return true
  } catch {
    return false
  }
}

function write(path: string, text: string): void {
  try {
    // Without O_CREAT: a file the hierarchy does not have is not an error.
    writeFileSync(path, text, { flag: 'r+' })
  } catch {
    // Another hierarchy or an older kernel: the caller's loop looks at what is left, not at this.
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The name a group of an attempt gets: recognisable, and never longer than a file name may be. */
export function controlGroupName(attemptId: string): string {
  return basename(`nfltr-${attemptId}`).slice(0, 128)
}
