import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type HubClient, hubClient } from '../../control/client.ts'
import { NfltrError } from '../../core/errors.ts'
import { ensurePrivateFolder } from '../../platform/files.ts'
import { programFile } from '../../platform/program-files.ts'
import type { Home } from '../../ports/home.ts'
import { findControl } from './control-files.ts'
import type { Project } from './project.ts'

export interface HubStart {
  readonly home: Home
  readonly homeFlag: string | undefined
  readonly project: Project
  readonly env: Readonly<Record<string, string | undefined>>
  readonly peer?: readonly string[]
  readonly listen?: readonly string[]
}

/** How often a start is tried when each new hub dies at once, within how long (rule 39 in its simplest form). */
const startsMax = 3

/**
 * A client of the project's hub: the running one, else a new process that outlives this one.
 *
 * @throws {NfltrError} `no_mesh` on a machine without a membership; what the hub said when it could not start
 */
export async function connectHub(start: HubStart): Promise<HubClient> {
  if ((await start.home.mesh.loadMembership()) === undefined) throw noMesh()
  for (let attempt = 1; ; attempt++) {
    const running = await findRunningHub(start.home, start.project.hubId)
    if (running !== undefined) return running
    try {
      await startHub(start)
    } catch (thrown) {
      // Somebody else started it at the same moment, and it will answer in a moment.
      const isTaken = thrown instanceof NfltrError && (thrown.code === 'store_held' || thrown.code === 'key_held')
      if (!isTaken || attempt === startsMax) throw thrown
    }
    const started = await findRunningHub(start.home, start.project.hubId)
    if (started !== undefined) return started
    if (attempt === startsMax)
      throw new NfltrError('not_running', 'The hub ended right after it had started.', { hint: logHint(start) })
  }
}

export async function findRunningHub(home: Home, hubId: string): Promise<HubClient | undefined> {
  try {
    const client = hubClient(await findControl(home.paths, { kind: 'hub', hubId }))
    await client.status()
    return client
  } catch (thrown) {
    if (thrown instanceof NfltrError && (thrown.code === 'not_running' || thrown.code === 'link_down')) return undefined
    throw thrown
  }
}

export function noMesh(): NfltrError {
  return new NfltrError('no_mesh', 'This machine is not a member of a mesh.', {
    hint: 'Run `nfltr mesh create` here, or `nfltr mesh join --invite-file FILE` with an invite for the role hub.',
  })
}

/** Resolves once the new process says that it is ready; rejects with its own refusal when it ends before. */
async function startHub(start: HubStart): Promise<void> {
  const folder = start.home.paths.hub(start.project.hubId)
  await ensurePrivateFolder(folder)
  const log = await open(join(folder, 'hub.log'), 'a', 0o600)
  try {
    const child = spawn(
      process.execPath,
      [...process.execArgv, mainModule(), 'hub', 'serve', '--exit-when-idle', '--json', ...flagsOf(start)],
      {
        cwd: start.project.folder,
        detached: true,
        env: hubEnvironment(start.env),
        stdio: ['ignore', 'pipe', log.fd],
      },
    )
    child.unref()
    const { stdout } = child
    if (stdout === null) throw new Error('the hub has no standard output')
    const firstLine = await new Promise<string | undefined>((resolve, reject) => {
      child.once('error', reject)
      const lines = createInterface({ input: stdout })
      lines.once('line', resolve)
      lines.once('close', () => resolve(undefined))
    })
    // The hub says nothing more: its end of the pipe must not keep this process.
    stdout.destroy()
    const said = firstLine === undefined ? {} : (JSON.parse(firstLine) as Record<string, unknown>)
    if (said['event'] === 'ready') return
    if ('error' in said) {
      const { errorFromDocument } = await import('../../control/error-document.ts')
      throw errorFromDocument(said)
    }
    throw new NfltrError('not_running', 'The hub ended before it was ready.', { hint: logHint(start) })
  } finally {
    await log.close()
  }
}

function flagsOf(start: HubStart): readonly string[] {
  return [
    '--hub-id',
    start.project.hubId,
    ...(start.homeFlag === undefined ? [] : ['--home', start.homeFlag]),
    ...(start.peer ?? []).flatMap((peer) => ['--peer', peer]),
    ...(start.listen ?? []).flatMap((listen) => ['--listen', listen]),
  ]
}

/**
 * A hub outlives the session that started it and must not carry that session's secrets about (rule 31): only what finds
 * folders and names and speaks a language goes along.
 */
function hubEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept =
    /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|USER|LOGNAME|XDG_[A-Z_]+|NFLTR_HOME|NFLTR_LISTEN|NFLTR_PEERS|NFLTR_LAN|NODE_EXTRA_CA_CERTS)$/
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value !== undefined && kept.test(name) ? [[name, value]] : [])),
  )
}

/** The program this process runs: `src/cli/main.ts` in a clone, `dist/cli/main.js` in a package. */
export function mainModule(): string {
  return programFile('cli/main')
}

function logHint(start: HubStart): string {
  return `Its log: ${join(start.home.paths.hub(start.project.hubId), 'hub.log')}`
}
