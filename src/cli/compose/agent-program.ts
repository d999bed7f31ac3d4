import { createClaudeDriver } from '../../node/drivers/claude/driver.ts'
import type { Credential } from '../../node/drivers/claude/environment.ts'
import { systemPrograms } from '../../platform/programs.ts'
import type { AgentDriver } from '../../ports/agent-driver.ts'
import type { CredentialKind, Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'

/** Claude Code as this machine's agents run it. */
export function agentProgram(
  context: Context,
  options: { readonly home: Home; readonly program: string; readonly passEnv: readonly string[] },
): AgentDriver {
  return createClaudeDriver({
    programs: systemPrograms(),
    program: options.program,
    own: definedOf(context.env),
    passEnv: options.passEnv,
    isRoot: process.getuid?.() === 0,
    credential: () => credentialOf(context, options.home),
  })
}

/** Asks the program now what it is, and answers the first question for that with it. */
export function askedAtOnce(driver: AgentDriver): AgentDriver {
  let first: ReturnType<AgentDriver['probe']> | undefined = driver.probe({ signal: AbortSignal.any([]) })
  first.catch(() => undefined)
  return {
    ...driver,
    probe: (options) => {
      const answer = first ?? driver.probe(options)
      first = undefined
      return answer
    },
  }
}

const credentialVariables: readonly (readonly [CredentialKind, string])[] = [
  ['api_key', 'ANTHROPIC_API_KEY'],
  ['auth_token', 'ANTHROPIC_AUTH_TOKEN'],
  ['oauth_token', 'CLAUDE_CODE_OAUTH_TOKEN'],
]

/** The one kept with `config add-credential`, else the one of this process's environment; its address goes with it. */
export async function credentialOf(context: Context, home: Home): Promise<Credential | undefined> {
  const baseUrl = context.env['ANTHROPIC_BASE_URL']
  const address = baseUrl === undefined || baseUrl === '' ? {} : { baseUrl }
  const kept = await home.credentials.load()
  if (kept !== undefined) return { ...kept, ...address }
  for (const [kind, name] of credentialVariables) {
    const secret = context.env[name]
    if (secret !== undefined && secret !== '') return { kind, secret, ...address }
  }
  return undefined
}

function definedOf(env: Context['env']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
