import type { TurnLaunch } from '../../../ports/agent-driver.ts'
import type { CredentialKind } from '../../../ports/home.ts'

export type Environment = Readonly<Record<string, string>>

/** What the program signs in with. `baseUrl` goes with it: another address must never get it (hazard M1). */
export interface Credential {
  readonly kind: CredentialKind
  readonly secret: string
  readonly baseUrl?: string
}

/** Taken from the node's own environment where they are set; everything else of it stays outside (rule 31). */
const passedOn: readonly RegExp[] = [
  /^(PATH|LANG|TZ|TERM|HOME|USER|LOGNAME)$/,
  /^LC_[A-Z]+$/,
  /^(HTTP|HTTPS|ALL|NO)_PROXY$/i,
  /^(NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR)$/,
]

/** Names that no `--pass-env` brings in: each would undo something that the launch does on purpose. */
const neverPassed = /^(NFLTR_|ANTHROPIC_|CLAUDE_|CLAUDECODE$|NODE_OPTIONS$|LD_PRELOAD$|DYLD_)/

const credentialVariables: Readonly<Record<CredentialKind, string>> = {
  api_key: 'ANTHROPIC_API_KEY',
  oauth_token: 'CLAUDE_CODE_OAUTH_TOKEN',
  auth_token: 'ANTHROPIC_AUTH_TOKEN',
}

/** Where a turn's own things of the program lie, all below the agent's private folder. */
export interface ClaudePaths {
  readonly configDir: string
  readonly shellPrefix: string
  readonly instructions: string
}

export function claudePaths(privateDir: string): ClaudePaths {
  return {
    configDir: `${privateDir}/claude`,
    shellPrefix: `${privateDir}/shell-prefix`,
    instructions: `${privateDir}/instructions.md`,
  }
}

/** The whole environment of the program, but its credential. Built from a list. */
export function environmentOf(
  turn: TurnLaunch,
  options: { readonly own: Environment; readonly passEnv: readonly string[]; readonly shell: string },
): Environment {
  const paths = claudePaths(turn.privateDir)
  return {
    ...selected(options.own, (name) => passedOn.some((pattern) => pattern.test(name))),
    ...selected(options.own, (name) => options.passEnv.includes(name) && !neverPassed.test(name)),
    TMPDIR: turn.tmpDir,
    SHELL: options.shell,
    NFLTR_AGENT_ID: turn.agentId,
    NFLTR_TASK_ID: turn.taskId,
    NFLTR_ATTEMPT: turn.attemptId,
    NFLTR_MACHINE: turn.machineName,
    // The same for every attempt of a task: what an agent does in the world, it can do under this key once.
    NFLTR_IDEMPOTENCY_KEY: turn.taskId,
    CLAUDE_CONFIG_DIR: paths.configDir,
    CLAUDE_CODE_TMPDIR: turn.tmpDir,
    CLAUDE_CODE_SHELL_PREFIX: paths.shellPrefix,
    ...quiet,
  }
}

/**
 * No files of this machine by mention: with a message that says `@/any/path`, the program reads that file for the model
 * without asking anybody. No auto memory, no update of itself, nothing that outlives the turn: a background task would keep the program alive
 * after its result, a schedule would wake it without anyone having asked.
 */
const quiet: Environment = {
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
  CLAUDE_CODE_DISABLE_CRON: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  CLAUDE_CODE_DISABLE_FILE_MENTIONS: '1',
  DISABLE_AUTOUPDATER: '1',
}

export function secretEnvironment(credential: Credential): Environment {
  return {
    [credentialVariables[credential.kind]]: credential.secret,
    ...(credential.baseUrl === undefined ? {} : { ANTHROPIC_BASE_URL: credential.baseUrl }),
  }
}

/**
 * Runs each command of the agent without the credential in its environment. The program gives the whole command as the one
 * argument. A process of the same user can still read the program's own environment (rule 4).
 */
export const shellPrefixScript = `#!/bin/sh
unset ${Object.values(credentialVariables).join(' ')}
exec "\${SHELL:-/bin/bash}" -c "$1"
`

function selected(own: Environment, accepts: (name: string) => boolean): Environment {
  return Object.fromEntries(Object.entries(own).filter(([name]) => accepts(name)))
}
