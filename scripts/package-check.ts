/**
 * Talks to an installed nfltr: `--version`, an unknown flag, and the tool list of `mcp --toolset hub` over stdio.
 * Arguments: the installed program, and an empty folder to use as its home.
 */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { createInterface } from 'node:readline'

const tools = [
  'get_result',
  'list_agents',
  'list_nodes',
  'send_message',
  'spawn_agent',
  'stop_agent',
  'wait_for_agents',
]

const [program = '', home = ''] = process.argv.slice(2)
const env = { PATH: process.env['PATH'], HOME: home, NFLTR_HOME: join(home, 'nfltr') }
const wanted = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as { version: string }

function check(what: string, ok: boolean, found: unknown): void {
  console.log(`${ok ? 'ok' : 'FAILED'}: ${what}${ok ? '' : `; found ${JSON.stringify(found)}`}`)
  if (!ok) process.exitCode = 1
}

const version = spawnSync(program, ['--version'], { cwd: home, env, encoding: 'utf8', timeout: 30_000 })
check('--version names the version of package.json', version.stdout.includes(wanted.version), version)

const unknown = spawnSync(program, ['--no-such-flag'], { cwd: home, env, encoding: 'utf8', timeout: 30_000 })
check('an unknown flag exits with 2', unknown.status === 2, unknown)

const server = spawn(program, ['mcp', '--toolset', 'hub'], { cwd: home, env, stdio: ['pipe', 'pipe', 'inherit'] })
const ended = new Promise<number | null>((resolve) => server.once('exit', resolve))
const deadline = setTimeout(() => server.kill('SIGKILL'), 30_000)

function send(message: object): void {
  server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

interface Reply {
  readonly id?: number
  readonly result?: {
    readonly serverInfo?: { readonly name?: string }
    readonly tools?: readonly { readonly name: string }[]
  }
}

send({
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'package-check', version: '1' } },
})
let listed: readonly string[] = []
for await (const line of createInterface({ input: server.stdout })) {
  const reply = JSON.parse(line) as Reply
  if (reply.id === 1) {
    check('mcp answers initialize', reply.result?.serverInfo?.name === 'nfltr', reply)
    send({ method: 'notifications/initialized' })
    send({ id: 2, method: 'tools/list', params: {} })
  }
  if (reply.id === 2) {
    listed = (reply.result?.tools ?? []).map((tool) => tool.name).sort()
    server.stdin.end()
  }
}
check('mcp lists the seven tools', JSON.stringify(listed) === JSON.stringify(tools), listed)
check('mcp ends with its standard input', (await ended) === 0, server.exitCode)
clearTimeout(deadline)
