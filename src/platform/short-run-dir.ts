import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../core/errors.ts'
import { checkPrivateFolder, createFileExclusively, ensurePrivateFolder, errorCode } from './files.ts'

/**
 * Longest path of a socket, in bytes. Systems cut or refuse at 104 (macOS) or 108 (Linux) with the closing zero byte,
 * and a cut path collides with others silently, so we stay below and count bytes, not characters.
 */
export const socketPathMaxBytes = 100

/** Bytes we leave for `/` and the name of a socket inside the folder. */
const socketNameMaxBytes = 32

/**
 * The folder for the sockets of one home: its run folder, or, where that path is too long for a socket, a short folder
 * of this user, made once and recorded in `run.json` so that every later process of the home finds the same one.
 *
 * @returns a folder that is ours, mode 0700
 * @throws {NfltrError} `insecure_permissions`; `path_too_long` where even the system's own temporary folder is too long
 */
export async function shortRunDir(
  runDir: string,
  temporaryRoots: readonly string[] = [process.env['XDG_RUNTIME_DIR'] ?? tmpdir(), tmpdir(), '/tmp'],
): Promise<string> {
  await ensurePrivateFolder(runDir)
  if (isShortEnough(runDir)) return runDir
  const record = join(runDir, 'run.json')
  for (;;) {
    const recorded = await readRecord(record)
    if (recorded !== undefined && isShortEnough(recorded)) {
      // The system may have cleaned it away meanwhile (logout, tmpfiles): the path is made again, and checked as ever.
      await ensurePrivateFolder(recorded)
      return recorded
    }
    if (recorded !== undefined) await rm(record, { force: true })
    const made = await makeShort(temporaryRoots)
    try {
      await createFileExclusively(record, `${JSON.stringify({ sockets_dir: made })}\n`)
      return made
    } catch (error) {
      await rm(made, { recursive: true, force: true })
      // Another process of this home was first: its folder is everybody's.
      if (!(error instanceof NfltrError) || error.code !== 'already_exists') throw error
    }
  }
}

/** The short folder that a home has made for its sockets, where it needed one and the folder is still ours. */
export async function recordedSocketsDir(runDir: string): Promise<string | undefined> {
  const recorded = await readRecord(join(runDir, 'run.json'))
  if (recorded === undefined || !/^nfltr-[A-Za-z0-9]{6}$/.test(basename(recorded))) return undefined
  return checkPrivateFolder(recorded).then(
    () => recorded,
    () => undefined,
  )
}

/** Path of a socket in a folder of {@link shortRunDir}. The folder is checked again: it is the only lock on the socket. */
export async function socketPathIn(dir: string, name: string): Promise<string> {
  await checkPrivateFolder(dir)
  const path = join(dir, name)
  if (Buffer.byteLength(path) > socketPathMaxBytes) throw tooLong(path)
  return path
}

function isShortEnough(dir: string): boolean {
  return Buffer.byteLength(dir) + socketNameMaxBytes <= socketPathMaxBytes
}

async function makeShort(roots: readonly string[]): Promise<string> {
  const root = await firstUsable(roots.filter((candidate) => isShortEnough(join(candidate, 'nfltr-XXXXXX'))))
  if (root === undefined) throw tooLong(roots[0] ?? '')
  return mkdtemp(join(root, 'nfltr-'))
}

async function firstUsable(roots: readonly string[]): Promise<string | undefined> {
  for (const root of roots) {
    const stats = await stat(root).catch(() => undefined)
    if (stats?.isDirectory() === true) return root
  }
  return undefined
}

async function readRecord(path: string): Promise<string | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const record: unknown = JSON.parse(text)
    if (typeof record !== 'object' || record === null || !('sockets_dir' in record)) return ''
    return typeof record.sockets_dir === 'string' ? record.sockets_dir : ''
  } catch {
    return ''
  }
}

function tooLong(path: string): NfltrError {
  return new NfltrError('path_too_long', `${path} was too long for a socket (${socketPathMaxBytes} bytes).`, {
    hint: 'Set TMPDIR or NFLTR_HOME to a shorter path.',
  })
}
