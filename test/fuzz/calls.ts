import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { SeededRandom } from '../../sim/random.ts'
import { hubRoutes, serveControl } from '../../src/control/server.ts'
import { errorCodes } from '../../src/core/errors.ts'
import { HubLink } from '../../src/mcp/hub-link.ts'
import { serveMcp } from '../../src/mcp/server.ts'
import { settle } from '../contracts/manual-clock.ts'
import { scriptedHub } from '../control/scripted-hub.ts'
import { TwinHub } from '../hub/support/twin-hub.ts'
import { mutateJson, mutateText } from './mutate.ts'
import { renewed } from './sessions.ts'
import { Crash, type Target } from './target.ts'

type Fields = Readonly<Record<string, unknown>>

/** Calls as a session makes them: what is right in each, so that one thing at a time is wrong. */
const rightCalls: readonly { readonly name: string; readonly arguments: Fields }[] = [
  {
    name: 'spawn_agent',
    arguments: {
      brief: 'do it',
      title: 'it',
      machine: 'vm1',
      labels: { gpu: 'a100' },
      requires: ['docker'],
      dir: 'data/x',
      model: 'm',
      effort: 'e',
      max_budget_usd: 1.5,
      max_turns: 3,
      timeout_ms: 0,
      deadline_ms: 1_000,
      lost_after_ms: 10_000,
      idempotency_key: 'key',
    },
  },
  { name: 'spawn_agent', arguments: { brief: 'do it', timeout_ms: 1_000 } },
  {
    name: 'wait_for_agents',
    arguments: { agent_ids: ['agt_1'], mode: 'all', events: true, timeout_ms: 0, max_bytes: 40_000 },
  },
  { name: 'wait_for_agents', arguments: { timeout_ms: 100 } },
  { name: 'get_result', arguments: { agent_id: 'agt_1', turn: 1, offset: 0, max_bytes: 40_000 } },
  { name: 'get_result', arguments: { delivery_id: 1 } },
  { name: 'send_message', arguments: { agent_id: 'agt_1', text: 'go on', idempotency_key: 'key' } },
  { name: 'stop_agent', arguments: { agent_id: 'agt_1', reason: 'enough' } },
  { name: 'list_agents', arguments: { state: ['running'], cursor: 'x', limit: 50 } },
  { name: 'list_nodes', arguments: { labels: { gpu: 'a100' }, cursor: 'x' } },
]

/** The adapter before a whole hub with a node: lines of JSON-RPC on its standard input. */
const mcp: Target = {
  kind: 'tool call',
  share: 8,
  open: async () =>
    renewed(async () => {
      const twin = await TwinHub.withNodes({ name: 'vm1', slots: 8 })
      await twin.spawn()
      const known = (await twin.ask<{ agents: { agent_id: string }[] }>('list_agents', {})).agents.map(
        ({ agent_id }) => agent_id,
      )
      let failure: unknown
      twin.hub.run().catch((error: unknown) => {
        failure = error
      })
      const wire = await openAdapter(twin)
      let id = 0
      return async (random) => {
        id += 1
        const line = callLine(random, id, known)
        const answered = wire.answer(id)
        wire.input.write(`${line}\n`)
        const answer = await untilAnswered(twin, answered)
        if (failure !== undefined) throw new Crash(line, failure)
        if (wire.isClosed()) throw new Crash(line, 'the adapter ended')
        // A line that is no request of ours gets no answer under its number; the next one does.
        if (answer === undefined) return 'passed over'
        return codeOfAnswer(line, answer)
      }
    }),
}

function callLine(random: SeededRandom, id: number, agents: readonly string[]): string {
  const right = random.pick(rightCalls)
  const given = 'agent_id' in right.arguments ? { ...right.arguments, agent_id: random.pick(agents) } : right.arguments
  const args = random.chance(0.8) ? mutateJson(random, given) : given
  const params = random.chance(0.9)
    ? { name: random.chance(0.95) ? right.name : mutateText(random, right.name), arguments: args }
    : mutateJson(random, { name: right.name, arguments: args, _meta: { progressToken: 1 } })
  const message = { jsonrpc: '2.0', id, method: 'tools/call', params }
  if (random.chance(0.9)) return JSON.stringify(message)
  if (random.chance(0.5)) return JSON.stringify(mutateJson(random, message))
  return mutateText(random, JSON.stringify(message)).replaceAll('\n', ' ')
}

interface Answer {
  readonly id?: unknown
  readonly error?: { readonly code: number; readonly message: string }
  readonly result?: { readonly isError?: boolean; readonly content?: readonly { readonly text: string }[] }
}

async function openAdapter(twin: TwinHub) {
  const input = new PassThrough()
  const output = new PassThrough()
  const hub = twin.hub
  const connection = {
    hub: {
      call: hub.call.bind(hub),
      confirm: hub.confirm.bind(hub),
      withdraw: hub.withdraw.bind(hub),
      doubt: hub.doubt.bind(hub),
      status: hub.status.bind(hub),
      showAgent: hub.showAgent.bind(hub),
      receipt: hub.receipt.bind(hub),
      account: hub.account.bind(hub),
      nodeAccount: hub.nodeAccount.bind(hub),
      logs: hub.logs.bind(hub),
      stop: hub.stop.bind(hub),
      backup: hub.backup.bind(hub),
      hold: async () => ({ release: async () => undefined, lost: new Promise<void>(() => undefined) }),
    },
  }
  const link = new HubLink(
    { connect: async () => connection },
    { pid: 1, host: 'here', since: '', sessionKey: twin.sessionKey },
  )
  let calls = 0
  let isClosed = false
  const adapter = await serveMcp({ link, input, output, version: '0', callKeyOf: () => `fuzzed-${++calls}` })
  void adapter.closed.then(() => {
    isClosed = true
  })
  const waiting = new Map<unknown, (answer: Answer) => void>()
  let rest = ''
  output.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const answer = JSON.parse(line) as Answer
      waiting.get(answer.id)?.(answer)
    }
  })
  return {
    input,
    isClosed: () => isClosed,
    answer: (id: number) =>
      new Promise<Answer>((resolve) => {
        waiting.clear()
        waiting.set(id, resolve)
      }),
  }
}

/** In the hub's own time: whoever waits is answered at its bound. */
async function untilAnswered(twin: TwinHub, answered: Promise<Answer>): Promise<Answer | undefined> {
  let answer: Answer | undefined
  void answered.then((given) => {
    answer = given
  })
  await settle(3)
  for (const stepMs of [0, 200, 2_000, 15_000, 600_000]) {
    if (answer !== undefined) return answer
    await twin.clock.advance(stepMs)
  }
  return answer
}

function codeOfAnswer(line: string, answer: Answer): string {
  if (answer.error !== undefined) return `rpc ${answer.error.code}`
  if (answer.result?.isError !== true) return 'taken'
  const text = answer.result.content?.[0]?.text ?? ''
  const { error } = JSON.parse(text) as { error: { code: string; message: string } }
  if (!Object.hasOwn(errorCodes, error.code) || error.code === 'internal') throw new Crash(line, text)
  return error.code
}

/** The control socket of a hub: requests of a process that knows the token, and of one that does not. */
const control: Target = {
  kind: 'control request',
  share: 2,
  open: async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nfltr-fuzz-'))
    const socketPath = join(folder, 'control.sock')
    const token = 'right'
    const server = await serveControl({ socketPath, token, routes: hubRoutes(scriptedHub()) })
    const rightBody = { tool: 'list_agents', args: {}, call_key: 'a key of a call', session_key: 'a key of a session' }
    return {
      try: async (random) => {
        const path = random.chance(0.8)
          ? random.pick(['/v1/call', '/v1/confirm'])
          : encodeURI(mutateText(random, '/v1/call').toWellFormed())
        const body = random.chance(0.8)
          ? JSON.stringify(mutateJson(random, rightBody))
          : mutateText(random, JSON.stringify(rightBody))
        const given = random.chance(0.9) ? token : 'wrong'
        const answer = await post(socketPath, { path, token: given, body: body ?? '' }).catch((error: unknown) => {
          throw new Crash(`${path} ${body}`, error)
        })
        const [first = ''] = answer.text.split('\n')
        const document = JSON.parse(first) as { error?: { code: string } }
        if (document.error === undefined) return 'taken'
        if (document.error.code === 'internal') throw new Crash(`${path} ${body}`, first)
        return document.error.code
      },
      close: async () => {
        await server.close()
        await rm(folder, { recursive: true, force: true })
      },
    }
  },
}

function post(
  socketPath: string,
  what: { readonly path: string; readonly token: string; readonly body: string },
): Promise<{ readonly text: string }> {
  return new Promise((resolve, reject) => {
    const path = what.path.startsWith('/') ? what.path : `/${what.path}`
    const headers = { authorization: `Bearer ${what.token}`, 'content-type': 'application/json' }
    const sent = request({ socketPath, path, method: 'POST', headers }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ text }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(what.body)
  })
}

export const calls: readonly Target[] = [mcp, control]
