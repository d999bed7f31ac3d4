import type { Command } from 'commander'
import { NfltrError } from '../../core/errors.ts'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { table } from '../table.ts'

export interface ConfigWorld {
  readonly io: CliIo
  get(options: { readonly home?: string; readonly key: string }): Promise<unknown>
  /** @returns the value as the setting has it, of its own type */
  set(options: { readonly home?: string; readonly key: string; readonly value: string }): Promise<unknown>
  list(options: {
    readonly home?: string
  }): Promise<readonly { readonly key: string; readonly value: unknown; readonly source: string }[]>
  addCredential(options: {
    readonly home?: string
    readonly kind: CredentialKind
    readonly secret: string
  }): Promise<void>
}

export const credentialKinds = ['api-key', 'oauth-token', 'auth-token'] as const
export type CredentialKind = (typeof credentialKinds)[number]

export function configGet(world: ConfigWorld): Command {
  return leaf('get', 'print one setting')
    .argument('<key>')
    .action(async (key: string, _options: unknown, command: Command) => {
      const value = await world.get({ ...command.optsWithGlobals(), key })
      world.io.answer(value === undefined ? { key } : { key, value }, value === undefined ? '' : text(value))
    })
}

export function configSet(world: ConfigWorld): Command {
  return leaf('set', 'change one setting')
    .argument('<key>')
    .argument('<value>')
    .action(async (key: string, value: string, _options: unknown, command: Command) => {
      const kept = await world.set({ ...command.optsWithGlobals(), key, value })
      world.io.answer({ key, value: kept }, `${key} is ${value}.`)
    })
}

export function configList(world: ConfigWorld): Command {
  return leaf('list', 'print every setting')
    .option('--sources', 'and where each value comes from')
    .action(async (_options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const settings = await world.list(options)
      const withSources = options['sources'] === true
      world.io.answer(
        { settings: settings.map(({ key, value, source }) => (withSources ? { key, value, source } : { key, value })) },
        table(
          withSources ? ['key', 'value', 'source'] : ['key', 'value'],
          settings.map(({ key, value, source }) => [key, text(value), ...(withSources ? [source] : [])]),
        ),
      )
    })
}

/** `nfltr config add-credential` — keeps the key the agents of this machine use, 0600. Never an argument. */
export function configAddCredential(world: ConfigWorld): Command {
  return leaf('add-credential', "keep the credential of this machine's agents")
    .option('--kind <kind>', `what it is: ${credentialKinds.join(', ')}`, 'api-key')
    .option('--file <file>', 'read it from this file (mode 0600); - reads standard input')
    .addHelpText(
      'after',
      '\nExamples:\n  $ nfltr config add-credential < key.txt\n  $ claude setup-token   # then: nfltr config add-credential --kind oauth-token',
    )
    .action(async (_options: unknown, command: Command) => addCredential(world, command.optsWithGlobals()))
}

export function configAddApiKey(world: ConfigWorld): Command {
  return leaf('add-api-key', 'the same as add-credential --kind api-key')
    .option('--file <file>', 'read it from this file (mode 0600); - reads standard input')
    .action(async (_options: unknown, command: Command) =>
      addCredential(world, { ...command.optsWithGlobals(), kind: 'api-key' }),
    )
}

async function addCredential(world: ConfigWorld, options: Readonly<Record<string, unknown>>): Promise<void> {
  const kind = credentialKinds.find((known) => known === options['kind'])
  if (kind === undefined) {
    throw new NfltrError('invalid_argument', `${String(options['kind'])} is no kind of credential.`, {
      hint: `Kinds: ${credentialKinds.join(', ')}.`,
      details: { argument: '--kind' },
    })
  }
  const home = options['home']
  const secret = (await readSecret(world.io, options['file'])).trim()
  if (secret === '' || /[\s\0]/.test(secret)) {
    throw new NfltrError('invalid_argument', 'The credential was empty or held white space.', {
      details: { argument: '--file' },
    })
  }
  await world.addCredential({ ...(typeof home === 'string' ? { home } : {}), kind, secret })
  world.io.answer({ kind, stored: true }, 'The credential is stored; nodes use it from their next start on.')
}

async function readSecret(io: CliIo, file: unknown): Promise<string> {
  if (typeof file === 'string' && file !== '-') {
    const { readSecretFile } = await import('../secret-file.ts')
    return await readSecretFile(file, '--file')
  }
  if (file === undefined && io.isInteractive) return await io.ask('Credential: ', { isSecret: true })
  return await io.readInput()
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
