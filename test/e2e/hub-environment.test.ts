import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { newMachine } from './machine.ts'

/** Variables of a session that a hub, which outlives it, must not carry about. */
const secrets = {
  ANTHROPIC_API_KEY: 'secret-key',
  ANTHROPIC_AUTH_TOKEN: 'secret-token',
  CLAUDE_CODE_OAUTH_TOKEN: 'secret-oauth',
  NFLTR_INVITE: 'secret-invite',
  NODE_OPTIONS: '--no-warnings',
  SECRET_OF_THE_PROJECT: 'secret-of-the-project',
}

test('a hub that a command starts has no secret of that command’s environment', async () => {
  await using machine = await newMachine()
  await machine.json(['mesh', 'create', '--name', 'owner'])

  await machine.json(['agent', 'list'], { env: secrets })
  const status = await machine.json(['hub', 'status'])
  const environ = await readFile(`/proc/${String(status['pid'])}/environ`, 'utf8')

  expect(environ).toContain(`NFLTR_HOME=${machine.home}`)
  expect(Object.keys(secrets).filter((name) => environ.includes(`${name}=`))).toEqual([])
  expect(environ).not.toContain('secret-')
}, 60_000)

test('the settings of a command’s environment reach the hub that it starts', async () => {
  await using machine = await newMachine()
  await machine.json(['mesh', 'create', '--name', 'owner'])

  const refused = await machine.run(['agent', 'list', '--json'], { env: { NFLTR_PEERS: '/bad' } })

  expect(refused.stdout).toContain('invalid_argument')
  expect(refused.code).toBe(2)
}, 60_000)
