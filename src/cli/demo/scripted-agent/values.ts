/**
 * Values in a scenario that are worked out when the step is reached: text too long to write down, and what an earlier
 * call returned. An object whose only key starts with `$` is such a value; everything else stands for itself.
 *
 * - `{"$ref": "spawned.agent_id"}`: the named result, then a path into it (`results.0.text`)
 * - `{"$lines": 26}` or `{"$lines": {"count": 26, "prefix": "row "}}`: numbered lines, no newline at the end
 * - `{"$bytes": 5242880}`: exactly so many bytes of ASCII, in numbered lines, so that a page put wrong shows
 * - `{"$join": ["a ", {"$ref": "x.y"}]}`: one text
 */

/** A scenario that cannot be followed. The agent ends with exit code 64 and this message. */
export class ScenarioError extends Error {
  override readonly name = 'ScenarioError'
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** Looks up the first word of a `$ref`; undefined when nothing has that name. */
export type Lookup = (name: string) => unknown

const bytesMax = 64 * 1024 * 1024
const lineBytes = 64

/** The value with every `$…` object in it replaced. Throws {@link ScenarioError} on an unknown one or a dead path. */
export function evaluate(value: unknown, lookup: Lookup): unknown {
  if (Array.isArray(value)) return value.map((item) => evaluate(item, lookup))
  if (!isRecord(value)) return value
  const keys = Object.keys(value)
  const [key] = keys
  if (keys.length !== 1 || key === undefined || !key.startsWith('$')) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, evaluate(item, lookup)]))
  }
  const argument = value[key]
  switch (key) {
    case '$ref':
      return follow(argument, lookup)
    case '$lines':
      return numberedLines(argument)
    case '$bytes':
      return exactBytes(argument)
    case '$join':
      if (!Array.isArray(argument)) throw new ScenarioError('$join takes a list')
      return argument.map((item) => textOf(evaluate(item, lookup))).join('')
    default:
      throw new ScenarioError(`unknown value ${key}; known are $ref, $lines, $bytes and $join`)
  }
}

/** As {@link evaluate}, as text: a value that is not text is written as JSON. */
export function evaluateText(value: unknown, lookup: Lookup): string {
  return textOf(evaluate(value, lookup))
}

/** What a tool returned, as an object when its text is one JSON object or list. */
export function parsedResult(text: string): unknown {
  const first = text.trimStart()[0]
  if (first !== '{' && first !== '[') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function follow(path: unknown, lookup: Lookup): unknown {
  if (typeof path !== 'string' || path === '') throw new ScenarioError('$ref takes a path such as "spawned.agent_id"')
  const [root = '', ...rest] = path.split('.')
  let value = lookup(root)
  for (const name of rest) {
    if (Array.isArray(value)) value = value[Number(name)]
    else if (isRecord(value)) value = value[name]
    else value = undefined
  }
  if (value === undefined) throw new ScenarioError(`$ref ${path}: there is no such value`)
  return value
}

function numberedLines(argument: unknown): string {
  const { count, prefix = 'line ' } = isRecord(argument) ? argument : { count: argument }
  if (!isCount(count) || typeof prefix !== 'string') {
    throw new ScenarioError('$lines takes a number, or {"count", "prefix"}')
  }
  return Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`).join('\n')
}

function exactBytes(argument: unknown): string {
  if (!isCount(argument)) throw new ScenarioError('$bytes takes a number of bytes, at most 64 MiB')
  const lines = Math.ceil(argument / lineBytes)
  const text = Array.from({ length: lines }, (_, index) =>
    `${String(index).padStart(9, '0')} `.padEnd(lineBytes - 1, '.'),
  )
  return `${text.join('\n')}\n`.slice(0, argument)
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= bytesMax
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
