import { describe, expect, test } from 'vitest'
import { shellPrefixScript } from '../../../../src/node/drivers/claude/environment.ts'
import { buildLaunch, type LaunchFacts } from '../../../../src/node/drivers/claude/launch.ts'
import { launchOf } from './recording.ts'

const facts: LaunchFacts = {
  program: '/opt/claude',
  own: {
    PATH: '/bin',
    HOME: '/users/me',
    LC_ALL: 'C',
    https_proxy: 'http://proxy',
    SECRET_OF_THE_NODE: 'x',
    ANTHROPIC_API_KEY: 'sk-of-the-node',
    ANTHROPIC_BASE_URL: 'http://elsewhere',
    CLAUDE_CODE_SHELL_PREFIX: '/evil',
    NFLTR_HOME: '/users/me/.nfltr',
    NODE_OPTIONS: '--require evil',
    EXTRA: 'wanted',
  },
  passEnv: ['EXTRA', 'ANTHROPIC_API_KEY', 'NFLTR_HOME', 'CLAUDE_CODE_SHELL_PREFIX'],
  shell: '/bin/bash',
  credential: { kind: 'api_key', secret: 'sk-mine', baseUrl: 'http://mine' },
  isRoot: false,
  hasInstructions: false,
}

const flag = (args: readonly string[], name: string): string | undefined => args[args.indexOf(name) + 1]

describe('the launch of a turn', () => {
  test('reads no settings of user, project or repository, no server, no hook, no memory, no other session', () => {
    const { args, env } = buildLaunch(launchOf({ allowAllTools: false }), facts)

    expect(flag(args, '--setting-sources')).toBe('')
    expect(args).toContain('--strict-mcp-config')
    expect(args).not.toContain('--mcp-config')
    expect(JSON.parse(flag(args, '--settings') ?? '')).toEqual({
      disableAllHooks: true,
      crossSessionInbound: 'refuse',
      autoMemoryEnabled: false,
    })
    expect(args.slice(args.indexOf('--disallowedTools'))).toEqual(expect.arrayContaining(['SendMessage', 'ListAgents']))
    expect(env).toMatchObject({
      CLAUDE_CONFIG_DIR: '/private/claude',
      CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
      CLAUDE_CODE_DISABLE_FILE_MENTIONS: '1',
      DISABLE_AUTOUPDATER: '1',
    })
  })

  test('takes listed names of the environment and what the owner passes, and nothing that would undo the launch', () => {
    const { env, secretEnv } = buildLaunch(launchOf(), facts)

    expect(env).toMatchObject({
      PATH: '/bin',
      HOME: '/users/me',
      LC_ALL: 'C',
      https_proxy: 'http://proxy',
      EXTRA: 'wanted',
    })
    expect(Object.keys(env)).not.toEqual(expect.arrayContaining(['SECRET_OF_THE_NODE']))
    for (const name of [
      'ANTHROPIC_API_KEY',
      'ANTHROPIC_BASE_URL',
      'NODE_OPTIONS',
      'NFLTR_HOME',
      'SECRET_OF_THE_NODE',
    ]) {
      expect(env).not.toHaveProperty(name)
    }
    expect(env['CLAUDE_CODE_SHELL_PREFIX']).toBe('/private/shell-prefix')
    expect(secretEnv).toEqual({ ANTHROPIC_API_KEY: 'sk-mine', ANTHROPIC_BASE_URL: 'http://mine' })
    expect(env).toMatchObject({
      NFLTR_AGENT_ID: 'agent_1',
      NFLTR_TASK_ID: 'task_1',
      NFLTR_ATTEMPT: 'att_1',
      NFLTR_MACHINE: 'vm1',
      TMPDIR: '/tmp',
    })
  })

  test('gives each kind of credential under its own name, and takes all of them from the agent’s commands', () => {
    const kinds = [
      ['api_key', 'ANTHROPIC_API_KEY'],
      ['oauth_token', 'CLAUDE_CODE_OAUTH_TOKEN'],
      ['auth_token', 'ANTHROPIC_AUTH_TOKEN'],
    ] as const
    for (const [kind, name] of kinds) {
      const { secretEnv } = buildLaunch(launchOf(), { ...facts, credential: { kind, secret: 's' } })
      expect(secretEnv).toEqual({ [name]: 's' })
      expect(shellPrefixScript).toContain(name)
    }
  })

  test('allows edits and reading only, unless the owner allowed all tools', () => {
    const careful = buildLaunch(launchOf({ allowAllTools: false }), facts).args
    const free = buildLaunch(launchOf({ allowAllTools: true }), facts).args
    const root = buildLaunch(launchOf({ allowAllTools: true }), { ...facts, isRoot: true }).args
    const sandboxed = buildLaunch(launchOf({ allowAllTools: true }), {
      ...facts,
      isRoot: true,
      own: { ...facts.own, IS_SANDBOX: '1' },
      passEnv: ['IS_SANDBOX'],
    }).args

    expect(flag(careful, '--permission-mode')).toBe('acceptEdits')
    expect(careful).not.toContain('--allowedTools')
    expect(careful).not.toContain('--dangerously-skip-permissions')
    expect(free).toContain('--dangerously-skip-permissions')
    expect(root).not.toContain('--dangerously-skip-permissions')
    expect(root.slice(root.indexOf('--allowedTools'))).toEqual(expect.arrayContaining(['Bash', 'Write', 'WebFetch']))
    expect(sandboxed).toContain('--dangerously-skip-permissions')
  })

  test('begins a session of its own, or goes on in the agent’s', () => {
    const sessionId = '00000000-0000-4000-8000-000000000009'

    const first = buildLaunch(launchOf({ sessionId }), facts).args
    const next = buildLaunch(launchOf({ sessionId, isContinuation: true }), facts).args

    expect(flag(first, '--session-id')).toBe(sessionId)
    expect(first).not.toContain('--resume')
    expect(flag(next, '--resume')).toBe(sessionId)
    expect(next).not.toContain('--session-id')
  })

  test('asks for what the spawn asked for, and makes nothing up', () => {
    const plain = buildLaunch(launchOf(), facts).args
    const request = { brief: 'x', model: 'sonnet', effort: 'low', maxBudgetUsd: 0.5, maxTurns: 3 }
    const asked = buildLaunch(launchOf({ request }), facts).args

    for (const name of ['--model', '--effort', '--max-budget-usd', '--max-turns']) expect(plain).not.toContain(name)
    expect(['--model', '--effort', '--max-budget-usd', '--max-turns'].map((name) => flag(asked, name))).toEqual([
      'sonnet',
      'low',
      '0.5',
      '3',
    ])
  })

  test('keeps the brief and the credential off the command line', () => {
    const { args } = buildLaunch(launchOf({ request: { brief: 'the-brief' } }), { ...facts, hasInstructions: true })

    expect(args.join(' ')).not.toMatch(/the-brief|sk-mine/)
    expect(flag(args, '--append-system-prompt-file')).toBe('/private/instructions.md')
  })
})
