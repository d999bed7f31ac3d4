import { type ChildProcess, spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { type ErrorCode, errorCodes, NfltrError } from '../core/errors.ts'
import { diskErrorOr } from '../platform/files.ts'
import { programFile } from '../platform/program-files.ts'
import { encodeSpec, type KeeperSpec } from './launch-spec.ts'

/** How long a keeper may take until its journal and socket are there. A starting Node needs a tenth of a second. */
const startTimeoutMs = 30_000

/** Bounds what a keeper may say before it is ready. */
const readyMaxBytes = 64 * 1024

/**
 * Starts a keeper and waits until its journal and socket are there. It is in a session of its own, keeps nothing of our
 * environment, and writes what it has to say to `keeper.log` in the attempt's folder.
 *
 * @throws {NfltrError} `launch_failed`, `disk_full`, `already_exists`: nothing of the attempt runs, and nothing will
 *   once the caller has declared the folder void
 */
export async function startKeeper(spec: KeeperSpec): Promise<void> {
  const log = await open(join(spec.folder, 'keeper.log'), 'a', 0o600).catch((error: unknown) => {
    throw diskErrorOr(error, spec.folder)
  })
  try {
    const child = spawn(process.execPath, [...nodeFlags, programFile('keeper/main')], {
      cwd: '/',
      env: { UV_THREADPOOL_SIZE: '2' },
      detached: true,
      stdio: ['pipe', log.fd, log.fd, 'pipe'],
    })
    await handOver(child, spec)
    child.unref()
  } finally {
    await log.close()
  }
}

/** A keeper mostly sleeps: one small young generation and no helper threads keep it below 60 MiB. */
const nodeFlags = ['--max-semi-space-size=1', '--v8-pool-size=0', '--no-warnings']

async function handOver(child: ChildProcess, spec: KeeperSpec): Promise<void> {
  const stdin = child.stdin
  const ready = child.stdio[3]
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (error) => reject(launchFailed(error.message, error)))
  })
  if (stdin === null || !isReadable(ready)) throw launchFailed('it has no pipes')
  const timer = setTimeout(() => child.kill('SIGKILL'), startTimeoutMs)
  try {
    const answer = readAll(ready)
    writeAll(stdin, encodeSpec(spec))
    expectReady(await answer)
  } finally {
    clearTimeout(timer)
  }
}

/** A keeper that dies early breaks the pipe; its ready descriptor then ends without a word, which is told. */
function writeAll(stream: Writable, text: string): void {
  stream.on('error', () => undefined)
  stream.end(text)
}

async function readAll(stream: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk)
    total += bytes.length
    if (total > readyMaxBytes) break
    chunks.push(bytes)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function expectReady(answer: string): void {
  let value: unknown
  try {
    value = JSON.parse(answer)
  } catch {
    throw launchFailed('it ended before it was ready')
  }
  if (typeof value !== 'object' || value === null) throw launchFailed('it gave no answer')
  if ('ready' in value && value.ready === true) return
  const message = 'message' in value && typeof value.message === 'string' ? value.message : 'it gave no reason'
  const code = 'code' in value && typeof value.code === 'string' ? value.code : ''
  if (Object.hasOwn(errorCodes, code) && code !== 'launch_failed') throw new NfltrError(code as ErrorCode, message)
  throw launchFailed(message)
}

function isReadable(stream: unknown): stream is Readable {
  return typeof stream === 'object' && stream !== null && 'on' in stream && 'read' in stream
}

function launchFailed(why: string, cause?: unknown): NfltrError {
  return new NfltrError('launch_failed', `The keeper could not be started: ${why}.`, {
    hint: 'See keeper.log in the folder of the attempt.',
    ...(cause === undefined ? {} : { cause }),
  })
}
