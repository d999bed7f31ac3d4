import { lstat, readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { recordedSocketsDir } from '../../platform/short-run-dir.ts'
import type { HomePaths } from '../../ports/home.ts'

/** What of nfltr lies on this machine, named exactly: a folder of ours may hold files of others. */
export interface Parts {
  /** Files, links and folders that are ours with everything in them. */
  readonly owned: readonly string[]
  /** Folders around them, inner ones first: they go where nothing else is left in them. */
  readonly around: readonly string[]
  /** Folders from which programs of ours run. */
  readonly roots: readonly string[]
  /** What lies in folders of ours and is not ours. */
  readonly beside: () => Promise<readonly string[]>
}

/** The line by which the installer knows its launcher. @see scripts/install.sh */
const launcherMark = '# Written by the installer of nfltr.'

/** What `scripts/install.sh` brought for this user; empty for one who runs it otherwise. */
export async function installedParts(env: Readonly<Record<string, string | undefined>>): Promise<Parts> {
  const user = env['HOME'] ?? homedir()
  const data = env['XDG_DATA_HOME']
  const app = resolve(data === undefined || data === '' ? join(user, '.local/share') : data, 'nfltr/app')
  const launcher = join(user, '.local/bin/nfltr')
  const owned: string[] = []
  for (const name of await namesIn(app)) if (await isInstallation(join(app, name))) owned.push(join(app, name))
  if ((await textOf(launcher)).split('\n').includes(launcherMark)) owned.push(launcher)
  return { owned, around: [app, dirname(app)], roots: [app], beside: () => restOf(app) }
}

/** What a home keeps. */
export async function homeParts(paths: HomePaths): Promise<Parts> {
  const [config, state] = [dirname(paths.configFile), dirname(paths.node)]
  const hubs = dirname(paths.hub('any'))
  const sockets = await recordedSocketsDir(paths.run)
  const { configFile, credentials, keys, mesh, issuer, node, run } = paths
  return {
    owned: [...(sockets === undefined ? [] : [sockets]), run, node, hubs, mesh, issuer, credentials, keys, configFile],
    around: [config, state],
    roots: [],
    beside: async () => [...new Set([...(await restOf(config)), ...(await restOf(state))])],
  }
}

export async function partsThere({ owned }: Parts): Promise<readonly string[]> {
  const there: string[] = []
  for (const path of owned) if (await isThere(path)) there.push(path)
  return there
}

/**
 * Removes what is ours. A link is removed and not followed.
 *
 * @returns what was there and is gone
 */
export async function removeParts(parts: readonly Parts[]): Promise<readonly string[]> {
  const removed: string[] = []
  for (const part of parts) {
    for (const path of await partsThere(part)) {
      await rm(path, { recursive: true, force: true, maxRetries: 3 })
      removed.push(path)
    }
    for (const folder of part.around) {
      // Somebody else's file in it keeps it, and a link in its place is not ours.
      if (await isRemoved(folder)) removed.push(folder)
    }
  }
  return removed
}

/** Removes a folder that is empty. */
async function isRemoved(folder: string): Promise<boolean> {
  return rmdir(folder).then(
    () => true,
    () => false,
  )
}

/** A version of the program, the link to the current one, or one that an interrupted installer was making. */
async function isInstallation(path: string): Promise<boolean> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if ((await lstat(path)).isSymbolicLink()) return /^current(\.\d+)?$/.test(name)
  if (/^new\.\w{6}$/.test(name)) return true
  return (await textOf(join(path, 'package.json'))).includes('"name": "nfltr"')
}

async function restOf(folder: string): Promise<readonly string[]> {
  return (await namesIn(folder)).map((name) => join(folder, name))
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return await readdir(folder).catch(() => [])
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch(() => '')
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
