import { basename, extname } from 'node:path'
import { describe, expect, test } from 'vitest'
import { committed, files, read, withoutComments } from './support/sources.ts'

/**
 * Lines of the longest file of src/ and sim/. A ratchet: a file may not become longer than the longest one is; make this
 * number smaller when the longest file has been divided. The aim is 250 (docs/internals/STYLE.md).
 */
const longestFileLines = 500

const textFile = /\.(ts|js|json|jsonl|md|sh|yml|yaml|toml|html|css|proto|txt)$/
const written = committed().filter((file) => file !== 'package-lock.json' && !file.startsWith('src/wire/generated/'))
const texts = written.filter((file) => textFile.test(file) || extname(file) === '')
const code = written.filter((file) => /\.(ts|js)$/.test(file) && !file.endsWith('.d.ts'))
const tests = code.filter((file) => file.endsWith('.test.ts'))
const product = code.filter((file) => file.startsWith('src/'))

/** `file:line: text` of every line that the pattern matches. */
function lines(
  paths: readonly string[],
  pattern: RegExp,
  prepare = (source: string): string => source,
): readonly string[] {
  return paths.flatMap((file) =>
    prepare(read(file))
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim().slice(0, 160)}`] : [])),
  )
}

describe('tidy', () => {
  test('what is left to do names its issue', () => {
    expect(lines(texts, /\b(?:TO[D]O|FI[X]ME|XX[X]|HA[C]K)\b(?!\(#\d+\))/)).toEqual([])
  })

  test('no test is switched off, and none keeps the others from running', () => {
    expect(lines(tests, /\b(?:test|it|describe|suite)\.(?:only|skip|todo)\b/)).toEqual([])
  })

  test('no test sleeps', () => {
    const sleep = /node:timers\/promises|\bsleep\(|new Promise(?:<\w+>)?\(\((\w+)\) => setTimeout\(\1/

    expect(lines(tests, sleep, withoutComments)).toEqual([])
  })

  test('nothing is typed any, and no finding of the compiler is silenced', () => {
    const anything = /(?::|\bas|<|\|)\s*any\b(?!['\w])/
    const forced = /\bas unknown as\b/
    const silencer = /@ts-(?:ignore|nocheck)/
    const others = code.filter((file) => file !== 'test/tidy.test.ts')
    const bare = (source: string): string =>
      withoutComments(source).replace(/'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/g, "''")

    expect(lines(others, anything, bare)).toEqual([])
    expect(lines(product, forced, bare)).toEqual([])
    expect(lines(others, silencer)).toEqual([])
  })

  test('files are in kebab case and named for what they hold', () => {
    const named = code.filter((file) => /^(?:src|sim|test|scripts|bin|relay-node)\//.test(file))
    const wrong = named.filter((file) => {
      const name = basename(file).replace(/(?:\.test|\.config)?\.(?:ts|js)$/, '')
      return !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) || /^(?:utils?|helpers?|common|.*manager|types|misc)$/.test(name)
    })

    expect(wrong).toEqual([])
  })

  test('no file becomes longer than the longest one is', () => {
    const sizes = files('{src,sim}/**/*.ts')
      .filter((file) => !file.startsWith('src/wire/generated/'))
      .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
      .sort((a, b) => b.lines - a.lines)
    const tooLong = sizes.filter((size) => size.lines > longestFileLines)

    const longest = sizes.slice(0, 10).map((size) => `${size.lines} ${size.file}`)
    expect(tooLong, `the ten longest:\n${longest.join('\n')}`).toEqual([])
  })

  test('no file names a folder of the machine it was written on', () => {
    const machinePath = /(?<![\w./-])\/(?:work|root|home|Users)\/[\w.-]/

    expect(lines(texts, machinePath)).toEqual([])
  })

  test('the lock file holds no download address', () => {
    const lock = read('package-lock.json')

    expect(lock).not.toContain('"resolved"')
    expect(lock.match(/https?:\/\/[^"]*registry[^"]*/g) ?? []).toEqual([])
  })

  test('nothing runs when the package is installed', () => {
    const scripts = Object.keys((JSON.parse(read('package.json')) as { scripts: Record<string, string> }).scripts)

    expect(scripts.filter((name) => /^(?:pre|post)?(?:install|prepare|pack|publish)/.test(name))).toEqual([])
  })
})

describe('nothing is filled in for the user', () => {
  // What nobody set stays out: a default chosen here would spend the money of a person who never saw it.
  const setting = '(?:model|effort|(?:max_?)?budget(?:_?usd)?|max_?turns)'
  const rules: readonly RegExp[] = [
    // A name of a model, anywhere in the product.
    /['"`/-](?:opus|sonnet|haiku)\b|['"`]claude-(?:[a-z]+-)?\d/i,
    // model: 'x'   model = 'x'   model ?? 'x'   maxTurns: 5
    new RegExp(
      `(?<![\\w.-])(?:\\w+\\.)*${setting}['"]?\\)?\\s*(?:\\?\\?=?|\\|\\|=?|=(?!=)|:)\\s*(?:['"\`](?!['"\`])|\\d)`,
      'i',
    ),
    // A default of a schema or of a flag.
    new RegExp(`(?<![\\w-])${setting}['"]?\\s*:.*\\.default\\(`, 'i'),
    /\.option\(\s*'--(?:model|effort|max-budget-usd|max-turns)\b[^']*',\s*(?:'[^']*'|"[^"]*")\s*,\s*(?:\w+\s*,\s*)?(?:['"`]|\d)/,
  ]
  // The demo's agent is a script that shows a model's name in its output; it asks for none.
  const checked = product.filter((file) => !file.startsWith('src/cli/demo/scripted-agent/'))

  test('no model, effort or budget has a default', () => {
    expect(rules.flatMap((rule) => lines(checked, rule, withoutComments))).toEqual([])
  })

  test.each([
    "const model = 'some-model'",
    "model: args.model ?? 'some-model',",
    "effort: 'high',",
    'maxTurns: 20,',
    'const maxBudgetUsd = options.maxBudgetUsd ?? 5',
    "model: z.string().default('x'),",
    ".option('--model <name>', 'the model', 'some-model')",
    ".option('--max-turns <n>', 'turns', parseCount, 10)",
    "const name = 'claude-opus-4'",
  ])('a default is noticed: %s', (line) => {
    expect(rules.some((rule) => rule.test(line))).toBe(true)
  })

  test.each([
    'model: args.model,',
    'if (task.model !== undefined) flags.push(`--model`, task.model)',
    'readonly maxTurns?: number',
    'model: z.string().optional(),',
    ".option('--model <name>', 'passed on to the agent program')",
    "if (effort === 'high') return",
  ])('passing a value on is not: %s', (line) => {
    expect(rules.some((rule) => rule.test(line))).toBe(false)
  })
})
