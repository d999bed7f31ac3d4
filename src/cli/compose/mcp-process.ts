import { createHash, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { HubLink } from '../../mcp/hub-link.ts'
import { serveMcp } from '../../mcp/server.ts'
import { openHome } from '../../store/home/home.ts'
import type { McpOptions } from '../commands/mcp.ts'
import type { Context } from '../compose.ts'
import { connectHub } from './hub-starter.ts'
import { processLifetime } from './lifetime.ts'
import { projectOf } from './project.ts'

/** Runs the MCP adapter on this process's standard input and output until the client leaves. */
export async function serveAdapter(context: Context, options: McpOptions): Promise<void> {
  const { env, version } = context
  const home = openHome({ ...options, env })
  const project = projectOf({ ...options, env })
  const link = new HubLink(
    { connect: async () => ({ hub: await connectHub({ ...options, home, homeFlag: options.home, project, env }) }) },
    {
      pid: env['CLAUDE_PID'] === undefined ? process.pid : Number(env['CLAUDE_PID']) || process.pid,
      host: hostname(),
      since: new Date().toISOString(),
      sessionKey: `mcp-${randomUUID()}`,
    },
  )
  const adapter = await serveMcp({
    link,
    version,
    input: process.stdin,
    output: process.stdout,
    callKeyOf: callKeyFor(env),
  })
  // Claude Code sends SIGINT when it ends; what was written by then still has to be confirmed.
  void processLifetime().ending.then(() => adapter.close())
  await adapter.closed
  await adapter.close()
  // An abandoned call may still wait in the hub; nothing of it is owed to anyone here.
  process.exit()
}

/**
 * The key of a call: the same for a repeat of one tool use of one session, else never the same (rule 3). The client's session
 * id may change under `/clear` while this process lives on, so it is taken once, at the start.
 */
function callKeyFor(env: Readonly<Record<string, string | undefined>>): (toolUseId: string | undefined) => string {
  const session = env['CLAUDE_CODE_SESSION_ID']
  return (toolUseId) => {
    if (toolUseId === undefined || session === undefined) return `call-${randomUUID()}`
    return `call-${createHash('sha256').update(`${session}\0${toolUseId}`).digest('hex').slice(0, 40)}`
  }
}
