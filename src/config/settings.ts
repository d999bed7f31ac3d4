import { z } from 'zod'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { isMachineName } from '../core/membership.ts'

/**
 * Settings of one machine, from `config.json` of its home. A file of a project is never read here: what a machine allows
 * is its owner's to say, and what agents may do (`--allow-…`) is said at each start and cannot be stored.
 */
const multiaddrs = z.array(z.string().min(1).max(limits.addressMaxBytes).startsWith('/')).max(limits.addressesMax)

const schemas = {
  name: z.string().refine(isMachineName, 'expected 1 to 63 of a-z, 0-9 and -'),
  listen: multiaddrs,
  peers: multiaddrs,
  lan: z.boolean(),
  'node.max_agents': z.int().min(1).max(limits.maxAgentsMax),
  'node.description': z.string().max(limits.descriptionMaxBytes),
  'node.claude': z.string().startsWith('/', 'expected an absolute path'),
} as const

export type SettingKey = keyof typeof schemas
export type Settings = { readonly [K in SettingKey]?: z.output<(typeof schemas)[K]> }

/** Where a value came from; earlier in this list wins. */
export const sources = ['flag', 'environment', 'file'] as const
export type Source = (typeof sources)[number]

export interface Setting {
  readonly key: SettingKey
  readonly value: unknown
  readonly source: Source
  /** The variable or file that holds it, for `config list --sources`. */
  readonly from: string
}

export const settingKeys = Object.keys(schemas) as readonly SettingKey[]

/** The environment variable of a setting: `node.max_agents` is `NFLTR_NODE_MAX_AGENTS`. */
export function variableOf(key: SettingKey): string {
  return `NFLTR_${key.replaceAll('.', '_').toUpperCase()}`
}

/**
 * Everything that is set, each from its strongest source: flags before `NFLTR_*` before the file. What nobody set is
 * absent.
 *
 * @throws {NfltrError} `invalid_argument`, naming key, source and the nearest known key
 */
export function resolveSettings(given: {
  readonly flags?: Settings
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly fileText?: string | undefined
}): readonly Setting[] {
  const file = parseFile(given.fileText)
  return settingKeys.flatMap((key): readonly Setting[] => {
    const flag = given.flags?.[key]
    if (flag !== undefined)
      return [{ key, value: check(key, flag, 'the command line'), source: 'flag', from: 'command line' }]
    const variable = variableOf(key)
    const text = given.env?.[variable]
    if (text !== undefined && text !== '') {
      return [{ key, value: check(key, fromText(key, text), variable), source: 'environment', from: variable }]
    }
    const value = file.get(key)
    return value === undefined ? [] : [{ key, value, source: 'file', from: 'config.json' }]
  })
}

/** The values alone. */
export function settingsOf(settings: readonly Setting[]): Settings {
  return Object.fromEntries(settings.map(({ key, value }) => [key, value])) as Settings
}

/**
 * The text of `config.json` with one setting changed; `undefined` takes it out.
 *
 * @throws {NfltrError} `invalid_argument`
 */
export function changeSetting(
  fileText: string | undefined,
  change: { key: string; value: string | undefined },
): string {
  const file = new Map<string, unknown>(parseFile(fileText))
  const key = knownKey(change.key, 'the command line')
  if (change.value === undefined) file.delete(key)
  else file.set(key, check(key, fromText(key, change.value), 'the command line'))
  const entries = settingKeys.filter((known) => file.has(known)).map((known) => [known, file.get(known)])
  return `${JSON.stringify({ schema: 1, ...Object.fromEntries(entries) }, null, 2)}\n`
}

/** The key that a text names. @throws {NfltrError} `invalid_argument` with the nearest one as hint */
export function knownKey(text: string, where: string): SettingKey {
  const known = settingKeys.find((key) => key === text)
  if (known !== undefined) return known
  throw new NfltrError('invalid_argument', `${where} names the unknown setting ${JSON.stringify(text.slice(0, 80))}.`, {
    hint: `Did you mean ${nearest(text)}? All: ${settingKeys.join(', ')}.`,
    details: { argument: text.slice(0, 80) },
  })
}

function parseFile(text: string | undefined): ReadonlyMap<SettingKey, unknown> {
  if (text === undefined || text.trim() === '') return new Map()
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (cause) {
    throw new NfltrError('invalid_argument', 'config.json is not JSON.', { hint: 'Correct it, or remove it.', cause })
  }
  const document = z.record(z.string(), z.unknown()).safeParse(parsed)
  if (!document.success) throw new NfltrError('invalid_argument', 'config.json is not an object of settings.')
  const settings = new Map<SettingKey, unknown>()
  for (const [name, value] of Object.entries(document.data)) {
    if (name === 'schema') continue
    const key = knownKey(name, 'config.json')
    settings.set(key, check(key, value, 'config.json'))
  }
  return settings
}

function check(key: SettingKey, value: unknown, where: string): unknown {
  const result = schemas[key].safeParse(value)
  if (result.success) return result.data
  const problem = result.error.issues[0]?.message ?? 'it has another form'
  throw new NfltrError('invalid_argument', `${key} of ${where} was refused: ${problem}.`, {
    hint: `Correct ${key}.`,
    details: { argument: key },
  })
}

/** A value as text: lists are separated by commas, numbers are decimal, switches are `true` or `false`. */
function fromText(key: SettingKey, text: string): unknown {
  const schema = schemas[key]
  if (schema instanceof z.ZodArray) {
    return text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
  }
  if (schema instanceof z.ZodBoolean && /^(true|false)$/.test(text.trim())) return text.trim() === 'true'
  if (schema instanceof z.ZodNumber) return /^-?\d+$/.test(text.trim()) ? Number(text) : text
  return text
}

function nearest(text: string): SettingKey {
  const scored = settingKeys.map((key) => ({ key, distance: distance(text, key) }))
  return scored.reduce((best, candidate) => (candidate.distance < best.distance ? candidate : best)).key
}

/** Levenshtein's distance, row by row. */
function distance(one: string, other: string): number {
  let previous = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [row, character] of [...one.slice(0, 80)].entries()) {
    const current = [row + 1]
    for (let column = 1; column <= other.length; column++) {
      const isSame = other[column - 1] === character
      const replaced = (previous[column - 1] ?? 0) + (isSame ? 0 : 1)
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[other.length] ?? 0
}
