/**
 * The scripted agent: a process that speaks Claude Code's command line and stream as an agent and as a hub session, and
 * does what a scenario file says. It has no model and reads no prose: a message selects a list of steps by its exact
 * text. `nfltr demo` and the tests run it; anything it does not know, a flag, a field, a step, ends it with status 64.
 *
 * The scenario is named by `--scenario FILE` (the demo's launcher) or `NFLTR_SCENARIO`.
 *
 * Not played, though the real CLI has it: settings files, hooks, CLAUDE.md, background tasks, partial messages, sub-agents.
 */

import { randomUUID } from 'node:crypto'
import process from 'node:process'
import { answerControl } from './scripted-agent/control.ts'
import { parseFlags } from './scripted-agent/flags.ts'
import { InputError, StdioHost } from './scripted-agent/host.ts'
import { claudeVersion } from './scripted-agent/lines.ts'
import { startServers } from './scripted-agent/mcp.ts'
import { configuredServers } from './scripted-agent/mcp-config.ts'
import { readScenario } from './scripted-agent/scenario.ts'
import { Session } from './scripted-agent/session.ts'
import { checkStart, openSession, StartError } from './scripted-agent/start.ts'
import { ScenarioError } from './scripted-agent/values.ts'

const exitUnknown = 64
const exitTerminated = 143

async function main(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv)
  if (flags.version) {
    process.stdout.write(`${claudeVersion} (Claude Code)\n`)
    return 0
  }
  checkStart(flags)
  const scenarioPath = flags.scenario ?? process.env['NFLTR_SCENARIO']
  if (scenarioPath === undefined) throw new ScenarioError('no scenario: set NFLTR_SCENARIO, or give --scenario')
  const scenario = readScenario(scenarioPath)
  const { history, cwd, configDir, resultPath } = openSession(flags)
  const host = new StdioHost({ lines: flags.outputFormat === 'stream-json', replay: flags.replayUserMessages })
  const servers = configuredServers(flags, { cwd, configDir })
  const idle = new AbortController()
  const mcp = await startServers(servers, {
    cwd,
    sessionId: history.sessionId,
    resultPath,
    elicit: async (server, params) => {
      if (flags.inputFormat !== 'stream-json') return { action: 'cancel' }
      const request = { subtype: 'elicitation', mcp_server_name: server, mode: 'form', ...params }
      const answer = await host.ask(request, idle.signal)
      return answer.kind === 'answer' ? answer.response : { action: 'cancel' }
    },
  })
  const session = new Session({ flags, scenario, host, history, mcp, cwd })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => session.stop(signal))
  try {
    await Promise.race([feed(session, host), session.run()].map((part) => Promise.resolve(part)))
  } finally {
    await mcp.close()
  }
  if (session.ending !== undefined) return session.ending === 'SIGTERM' ? exitTerminated : 0
  return finish(session)
}

/** Hands over what comes in. Never resolves: the session decides when it is done. Rejects when the input is unreadable. */
function feed(session: Session, host: StdioHost): Promise<never> {
  return new Promise((_, reject) => {
    if (session.flags.inputFormat === 'text') {
      session.receive({ text: session.flags.prompt ?? '', uuid: randomUUID(), given: false })
      session.end()
      return
    }
    host.listen({
      message: (text, uuid) => session.receive({ text, uuid: uuid ?? randomUUID(), given: uuid !== undefined }),
      control: (id, request) => answerControl(session, id, request),
      end: () => session.end(),
      failed: reject,
    })
  })
}

function finish(session: Session): number {
  const result = session.lastResult
  if (session.flags.outputFormat === 'json' && result !== undefined) process.stdout.write(`${JSON.stringify(result)}\n`)
  if (session.flags.outputFormat === 'text' && result !== undefined) {
    process.stdout.write(`${String(result['result'] ?? result['errors'])}\n`)
  }
  return result?.['is_error'] === true ? 1 : 0
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (error instanceof StartError || error instanceof InputError) {
    if (error instanceof StartError && error.line !== undefined) process.stdout.write(`${JSON.stringify(error.line)}\n`)
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  } else {
    const text = error instanceof ScenarioError ? error.message : String(error instanceof Error ? error.stack : error)
    process.stderr.write(`scripted agent: ${text}\n`)
    process.exitCode = exitUnknown
  }
}
// Standard input may still be open, and a turn may still wait for something that no longer matters.
process.exit()
