import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, open, realpath, rm, stat } from 'node:fs/promises'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import type { ProgramEnd, ProgramRun, Programs } from '../ports/programs.ts'
import { ensurePrivateFolder, errorCode, writeFileAtomically } from './files.ts'

/** A version and a usage text are short; more is not read. */
const outputMaxBytes = 256 * 1024

export function systemPrograms(): Programs {
  return {
    find,
    run,
    readText,
    makeFolder: ensurePrivateFolder,
    removeFile: (path) => rm(path, { force: true }),
    async writeText(path, text, { isProgram }) {
      await ensurePrivateFolder(dirname(path))
      await writeFileAtomically(path, text, { mode: isProgram ? 0o700 : 0o600 })
    },
  }
}

async function find(nameOrPath: string, searchPath: string): Promise<string | undefined> {
  const candidates = nameOrPath.includes('/')
    ? [nameOrPath]
    : searchPath
        .split(delimiter)
        .filter(isAbsolute)
        .map((folder) => join(folder, nameOrPath))
  for (const candidate of candidates) if (await isProgram(candidate)) return candidate
  return undefined
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(await realpath(path))).isFile()
  } catch {
    return false
  }
}

function run(program: string, options: ProgramRun): Promise<ProgramEnd> {
  const { args, env, timeoutMs, signal } = options
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...args],
      { env: { ...env }, cwd: '/', timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: outputMaxBytes, signal },
      (error, stdout, stderr) => {
        if (error !== null && typeof error.code === 'string') reject(error)
        else resolve({ stdout, stderr, ...(child.exitCode === null ? {} : { code: child.exitCode }) })
      },
    )
    child.stdin?.end()
  })
}

async function readText(path: string, { maxBytes }: { readonly maxBytes: number }): Promise<string | undefined> {
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENOTDIR' || code === 'EACCES' || code === 'ENXIO')
      return undefined
    throw error
  }
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return undefined
    if (stats.size > maxBytes) {
      throw new NfltrError('invalid_argument', `${path} was longer than ${maxBytes} bytes.`, { details: { path } })
    }
    const bytes = await file.readFile()
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new NfltrError('invalid_argument', `${path} was not valid UTF-8.`, { details: { path }, cause: error })
  } finally {
    await file.close()
  }
}
