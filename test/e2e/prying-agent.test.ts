import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { untilRuns } from './agent-states.ts'
import { repository } from './machine.ts'
import { type McpSession, openSession } from './mcp-client.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

interface Tried {
  readonly pid: number
  readonly socket: string
  readonly what: string
  readonly answer: string
  /** The other side ended the connection. */
  readonly ended: boolean
}

let mesh: MeshOfTwo
let session: McpSession
beforeAll(async () => {
  mesh = await meshOfTwo({ nodeFlags: ['--max-agents', '4', '--allow-all-tools'] })
  session = await openSession(mesh.hub)
}, 60_000)
afterAll(async () => {
  await session?.close()
  await mesh?.[Symbol.asyncDispose]()
})

test('an agent that connects to every socket of hub, node and keepers gets no power from any', async () => {
  const output = join(mesh.hub.project, '..', 'pried.json')
  const program = join(repository, 'test/fixtures/prying-agent/main.ts')
  const folders = [mesh.hub, mesh.node].map(({ home }) => dirname(home))
  const command = `'${process.execPath}' '${program}' '${output}' ${folders.map((folder) => `'${folder}'`).join(' ')}`
  await mesh.play({
    'look around': [{ tool: 'Bash', input: { command } }, { say: 'looked' }],
    'work beside it': [{ wait_for_message: true }, { say: 'undisturbed' }],
    'work for the agent': [{ say: 'power' }],
  })
  const beside = await session.tool('spawn_agent', { brief: 'work beside it' })
  // Its keeper has to be there when the other one looks.
  await untilRuns(session, beside['agent_id'])
  const prying = await session.tool('spawn_agent', { brief: 'look around' })
  const looked = await session.tool('wait_for_agents', { agent_ids: [prying['agent_id']] })
  await session.tool('send_message', { agent_id: beside['agent_id'], text: 'go on' })
  const undisturbed = await session.tool('wait_for_agents', { agent_ids: [beside['agent_id']] })
  const { tried, environment } = JSON.parse(readFileSync(output, 'utf8')) as {
    readonly tried: readonly Tried[]
    readonly environment: Readonly<Record<string, string>>
  }

  const sockets = [...new Set(tried.map(({ socket }) => socket))]
  const ofControl = sockets.filter((socket) => socket.includes('.sock') && !/\/k-/.test(socket))
  const ofKeepers = sockets.filter((socket) => /\/k-/.test(socket))
  const ofNetwork = sockets.filter((socket) => socket.includes('port'))
  const answersOf = (names: readonly string[]): readonly Tried[] =>
    tried.filter(({ socket, answer }) => names.includes(socket) && answer !== '')

  expect(looked['results']).toMatchObject([{ outcome: 'completed', text: 'looked' }])
  expect(undisturbed['results']).toMatchObject([{ outcome: 'completed', text: 'undisturbed' }])
  // Hub and node, the keepers of both agents, and the ports of hub, issuer and node.
  expect([ofControl.length, ofKeepers.length, ofNetwork.length]).toEqual([2, 2, 3])
  // Whoever does not know the token is told so, whatever it asks for, or that it speaks no HTTP.
  for (const { what, answer } of answersOf(ofControl))
    expect(`${what}: ${answer.slice(0, 12)}`).toMatch(/: HTTP\/1\.1 40[01]$/)
  expect(answersOf(ofControl).filter(({ answer }) => answer.includes('"not_a_member"')).length).toBeGreaterThanOrEqual(
    10,
  )
  // A keeper asks for its proof and says nothing more.
  for (const { what, answer } of answersOf(ofKeepers)) {
    expect(`${what}: ${answer.slice(4)}`).toMatch(/: \{"type":"challenge","protocol":\d+,"nonce":"[0-9a-f]+"\}$/)
  }
  // The network speaks no further than to agree on how to prove a key.
  const agreed = ['\u0013/multistream/1.0.0\n', '\u0007/noise\n', '\u0003na\n']
  const beyond = (answer: string): string => agreed.reduce((rest, word) => rest.replaceAll(word, ''), answer)
  for (const { what, answer } of answersOf(ofNetwork)) expect(beyond(answer), what).toBe('')
  expect(tried.filter(({ ended, socket }) => !ended && !ofControl.includes(socket))).toEqual([])
  // And it had no token to show.
  const tokens = [join(mesh.node.home, 'run', 'node.control.json')].map(
    (file) => (JSON.parse(readFileSync(file, 'utf8')) as { token: string }).token,
  )
  for (const token of tokens) expect(JSON.stringify(environment)).not.toContain(token)
  const agents = (await session.tool('list_agents', {}))['agents'] as readonly { readonly agent_id: string }[]
  expect(agents.map(({ agent_id }) => agent_id).sort()).toEqual([beside['agent_id'], prying['agent_id']].sort())
}, 120_000)
