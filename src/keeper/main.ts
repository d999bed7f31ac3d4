import { randomBytes } from 'node:crypto'
import { closeSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../core/errors.ts'
import type { JournalBody } from '../core/journal.ts'
import { systemClock } from '../platform/clock.ts'
import { removeControlGroup } from '../platform/control-group.ts'
import { diskErrorOr } from '../platform/files.ts'
import { bootId, ownName } from '../platform/process-table.ts'
import { type Command, prepareGroup, startCommand } from './command.ts'
import { keeperProtocol } from './frames.ts'
import { createJournal, type JournalWriter } from './journal-writer.ts'
import { type KeeperSpec, readSpec } from './launch-spec.ts'
import { type KeeperServer, startServer } from './server.ts'
import { type Supervision, superviseCommand } from './supervision.ts'

/**
 * The keeper: a process that owns one command, outlives the node that started it, and writes down all it sees.
 *
 * Everything it will ever run is loaded when this line runs: the files on disk may belong to another version an hour
 * later. It has no network, no key and no settings; what it is to do comes on its standard input.
 */
const specDescriptor = 0
const readyDescriptor = 3

const userUmask = process.umask(0o077)
const clock = systemClock()

async function main(): Promise<void> {
  const spec = readSpec(specDescriptor)
  const token = randomBytes(16).toString('hex')
  let supervision: Supervision | undefined
  let server: KeeperServer | undefined
  const { promise: launched, resolve: setLaunched, reject: setNotLaunched } = Promise.withResolvers<Supervision>()
  launched.catch(() => undefined)

  let journal: JournalWriter | undefined
  server = await startServer(spec.socketPath, token, {
    write: async (messageId, bytes) => (await launched).input.write(messageId, bytes),
    answer: async (requestId, bytes) => (await launched).input.answer(requestId, bytes, 'node'),
    closeInput: async () => (await launched).input.close(),
    stop: async (graceMs) => (await launched).stop('node', graceMs),
    syncedOffset: () => journal?.syncedOffset() ?? 0,
  })
  heedNoSignals(server)
  journal = await createJournal(join(spec.folder, 'journal'), headerOf(spec, token), {
    clock,
    events: {
      onSynced: (offset) => server?.announce(offset),
      onPressure: (isUnderPressure) => supervision?.setPressure(isUnderPressure),
    },
  })
  sayReady({ ready: true })

  const group = prepareGroup(spec.attemptId)
  await journal.appendDurably({ type: 'launching', ...(group === undefined ? {} : { cgroup: group }) })
  const command = await tryStart(spec, group, journal)
  let exit: JournalBody
  if (command === undefined) {
    setNotLaunched(new NfltrError('keeper_gone', 'The command could not be started.'))
    if (group !== undefined) removeControlGroup(group)
    exit = { type: 'exit', proof: group === undefined ? 'scan_clean' : 'cgroup_empty' }
  } else {
    // No wait between the start and the first look at the output: Node empties the pipes of a quick command by itself.
    const isNoted = journal.appendDurably({ type: 'launched', pid: command.name.pid, start: command.name.start })
    supervision = superviseCommand({ command, journal, clock, spec })
    await isNoted
    setLaunched(supervision)
    exit = await supervision.ended
  }
  // First the socket: whoever has read the exit finds nothing of the attempt left.
  await server.stopListening()
  await journal.appendDurably(exit)
  await server.close()
}

async function tryStart(
  spec: KeeperSpec,
  group: string | undefined,
  journal: JournalWriter,
): Promise<Command | undefined> {
  try {
    return await startCommand(spec, { group, umask: userUmask })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    await journal.appendDurably({ type: 'launch_failed', message })
    return undefined
  }
}

function headerOf(spec: KeeperSpec, token: string): JournalBody & { readonly type: 'header' } {
  const own = ownName()
  return {
    type: 'header',
    token,
    attemptId: spec.attemptId,
    bootId: bootId(),
    protocol: keeperProtocol,
    command: [spec.program, ...spec.args],
    envNames: [...Object.keys(spec.env), ...Object.keys(spec.secretEnv)].sort(),
    ...(spec.deadlineMs === undefined ? {} : { deadlineMs: spec.deadlineMs }),
    wallMs: clock.wallMs(),
    keeperPid: own.pid,
    keeperStart: own.start,
    socketPath: spec.socketPath,
    ...(spec.memo === undefined ? {} : { memo: spec.memo }),
  }
}

/**
 * A keeper ends with its command and by nothing else that asks politely: a terminal that closes, a node's group that is
 * interrupted, a service that is stopped must not cost a turn. SIGUSR2 asks it to bind its socket again.
 */
function heedNoSignals(server: KeeperServer): void {
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGPIPE'] as const) process.on(signal, () => undefined)
  process.on('SIGUSR2', () => server.listenAnew())
}

/** Tells the starter that the journal and the socket are there, or why not. It may be gone already: all the same. */
function sayReady(message: { readonly ready: true } | { readonly code: string; readonly message: string }): void {
  try {
    writeSync(readyDescriptor, JSON.stringify(message))
    closeSync(readyDescriptor)
  } catch {
    // Nobody listens.
  }
}

try {
  await main()
  process.exit(0)
} catch (failure) {
  const error = diskErrorOr(failure, 'The folder of the attempt')
  const code = error instanceof NfltrError ? error.code : 'launch_failed'
  const message = error instanceof Error ? error.message : String(error)
  sayReady({ code, message })
  process.stderr.write(`keeper: ${message}\n`)
  process.exit(1)
}
