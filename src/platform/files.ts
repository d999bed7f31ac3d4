import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../core/errors.ts'

/** Mode of everything we keep: read and written by its owner alone. */
const privateFileMode = 0o600
const privateFolderMode = 0o700

/**
 * Replaces a file as a whole: whoever opens it, now or after a power cut, finds the old bytes or the new ones. Durable
 * when this resolves.
 *
 * @throws {NfltrError} `disk_full`
 */
export async function writeFileAtomically(
  path: string,
  bytes: Uint8Array | string,
  options: { mode?: number } = {},
): Promise<void> {
  const temporary = await writeTemporary(path, bytes, options.mode ?? privateFileMode)
  try {
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
}

/**
 * Creates a file that nobody has created before, mode 0600; of any number of processes that try at once exactly one
 * succeeds. The file is whole from the moment it can be seen, and durable together with its folder when this resolves.
 *
 * @throws {NfltrError} `already_exists`, also where the file was made by an earlier run; `disk_full`
 */
export async function createFileExclusively(path: string, bytes: Uint8Array | string): Promise<void> {
  const temporary = await writeTemporary(path, bytes, privateFileMode)
  try {
    await linkExclusively(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
}

/**
 * Gives a file that is whole its name, which nobody may have taken before. The name is durable when this resolves; the file
 * keeps its former one too.
 *
 * @throws {NfltrError} `already_exists`; `disk_full`
 */
export async function linkExclusively(file: string, path: string): Promise<void> {
  try {
    // A hard link is refused where the name exists, and never shows half a file as an exclusive open would.
    await link(file, path)
  } catch (error) {
    if (errorCode(error) === 'EEXIST')
      throw new NfltrError('already_exists', `${path} was created before.`, { cause: error })
    throw diskErrorOr(error, path)
  }
  await syncFolder(dirname(path))
}

/**
 * Reads a file that holds a secret.
 *
 * @returns `undefined` where there is none
 * @throws {NfltrError} `insecure_permissions` where it is not a plain file of ours that only we can read
 */
export async function readPrivateFile(path: string): Promise<Buffer | undefined> {
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    if (errorCode(error) === 'ELOOP') throw insecure(path, 'is a symbolic link', 'Remove it.')
    throw error
  }
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw insecure(path, 'is not a plain file', 'Remove it.')
    if (stats.uid !== ownUid()) throw insecure(path, `belongs to user ${stats.uid}`, 'Remove it.')
    if ((stats.mode & 0o077) !== 0) throw insecure(path, 'can be read by other users', `Run: chmod 600 ${path}`)
    return await file.readFile()
  } finally {
    await file.close()
  }
}

/**
 * Makes sure that a folder exists, is ours and is closed to everyone else. Folders above it are made where they are
 * missing; an existing folder is never changed, since somebody else's choice of mode has a reason.
 *
 * @throws {NfltrError} `insecure_permissions` where it is a link, not a folder, another user's, or open to others
 */
export async function ensurePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: privateFolderMode })
  await checkPrivateFolder(path)
}

/** As {@link ensurePrivateFolder}, for a folder that must be there already. Call it before any connect or bind in it. */
export async function checkPrivateFolder(path: string): Promise<void> {
  const stats = await lstat(path)
  if (!stats.isDirectory()) throw insecure(path, 'is not a folder', 'Remove it.')
  if (stats.uid !== ownUid()) throw insecure(path, `belongs to user ${stats.uid}`, 'Choose another NFLTR_HOME.')
  if ((stats.mode & 0o077) !== 0) throw insecure(path, 'is open to other users', `Run: chmod 700 ${path}`)
}

/** Makes what was created, renamed or removed in a folder survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** The code of a failed system call, such as `ENOENT`; `undefined` for any other value. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Turns what a disk refuses into the refusal that names it; hands back anything else as it came. */
export function diskErrorOr(error: unknown, path: string): unknown {
  if (error instanceof NfltrError) return error
  switch (errorCode(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new NfltrError('disk_full', `${path} could not be written: no space was left.`, {
        hint: 'Free some space on that disk.',
        cause: error,
      })
    case 'EROFS':
      return new NfltrError('store_failed', `${path} could not be written: its disk is read-only.`, {
        hint: 'Mount it so that it can be written, or set NFLTR_HOME to a folder on another disk.',
        cause: error,
      })
    case 'EIO':
      return new NfltrError('store_failed', `${path} could not be read or written: the disk gave an error.`, {
        hint: 'Look at the disk before anything else; nfltr doctor says where everything is.',
        cause: error,
      })
    default:
      return error
  }
}

/** What is wrong with a path, by the code of the system call that it was refused with. */
const pathProblems: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'it, or a folder above it, does not exist'],
  ['ENOTDIR', 'what stands above it is no folder'],
  ['EISDIR', 'it is a folder'],
  ['EEXIST', 'something else is there'],
  ['EACCES', 'this user may not'],
  ['EPERM', 'that is not permitted there'],
  ['EROFS', 'its disk is read-only'],
  ['ELOOP', 'its links lead in a circle'],
  ['ENAMETOOLONG', 'its name is too long'],
])

/**
 * Turns the refusal of a path that a person gave into one that names it; hands back anything else as it came.
 *
 * @param argument how the person gave it: a flag, an argument or a setting
 */
export function badPathOr(
  error: unknown,
  { path, argument, deed }: { readonly path: string; readonly argument: string; readonly deed: 'read' | 'written' },
): unknown {
  const problem = pathProblems.get(errorCode(error) ?? '')
  if (problem === undefined || error instanceof NfltrError) return error
  return new NfltrError('invalid_argument', `${path} could not be ${deed}: ${problem}.`, {
    hint:
      deed === 'read' ? 'Name a file that this user can read.' : 'Name a file in a folder that this user can write to.',
    details: { argument },
    cause: error,
  })
}

async function writeTemporary(path: string, bytes: Uint8Array | string, mode: number): Promise<string> {
  const temporary = join(dirname(path), `.new-${randomBytes(8).toString('hex')}`)
  try {
    const file = await open(temporary, 'wx', mode)
    try {
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
  } catch (error) {
    await rm(temporary, { force: true })
    throw diskErrorOr(error, path)
  }
  return temporary
}

function insecure(path: string, what: string, hint: string): NfltrError {
  return new NfltrError('insecure_permissions', `${path} ${what}.`, { hint })
}

function ownUid(): number {
  // Only Windows has no user ids, where nothing of ours starts (rule 40).
  return process.getuid?.() ?? -1
}
