import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { compose } from '../src/cli/compose.ts'
import { terminalIo } from '../src/cli/io.ts'
import { buildProgram } from '../src/cli/program.ts'
import { settingKeys } from '../src/config/settings.ts'
import { toolInputs } from '../src/control/schema/tool-inputs.ts'
import { toolOutputs } from '../src/control/schema/tool-outputs.ts'
import { errorCodes } from '../src/core/errors.ts'
import { limits } from '../src/core/limits.ts'
import { outcomes, reasons } from '../src/core/model.ts'
import { toolNames } from '../src/ports/hub-api.ts'
import { keyspace } from '../src/store/keyspace.ts'
import { bounds } from '../src/wire/bounds.ts'
import { read } from './support/sources.ts'

const reference = (page: string): string => read(`docs/reference/${page}.md`)

/** What stands between a heading and the next one of its level or above. */
function section(page: string, heading: string): string {
  const level = /^#+/.exec(heading)?.[0].length ?? 0
  const lines = page.split('\n')
  const start = lines.indexOf(heading)
  if (start < 0) return ''
  const rest = lines.slice(start + 1)
  const end = rest.findIndex((line) => {
    const marks = /^(#+) /.exec(line)?.[1]
    return marks !== undefined && marks.length <= level
  })
  return (end < 0 ? rest : rest.slice(0, end)).join('\n')
}

/** Rows of the tables of a text whose first cell is code: the cells, without their backticks. */
function rows(text: string): readonly (readonly string[])[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim().replace(/^`(.*)`$/, '$1')),
    )
}

const firstCells = (text: string): readonly string[] => rows(text).map(([cell = '']) => cell)
const numberOf = (cell: string | undefined): number => Number((cell ?? '').replaceAll(',', ''))

describe('docs/reference/errors.md', () => {
  const page = reference('errors')

  test('has every code with its remedy and exit code, and no other', () => {
    const listed = rows(section(page, '## Errors')).map(([code, remedy, exit]) => [code, remedy, numberOf(exit)])

    expect(listed).toEqual(Object.entries(errorCodes).map(([code, { remedy, exit }]) => [code, remedy, exit]))
  })

  test('has every outcome and every reason, and no other', () => {
    expect(firstCells(section(page, '## Outcomes'))).toEqual(outcomes)
    expect(firstCells(section(page, '## Reasons'))).toEqual(reasons)
  })

  test('names only outcomes with which a reason comes', () => {
    const known = new Set<string>([...outcomes, 'reserved'])
    const words = rows(section(page, '## Reasons')).flatMap(([, cell = '']) => cell.split(', '))

    expect(words.filter((word) => !known.has(word))).toEqual([])
  })
})

describe('docs/reference/limits.md', () => {
  const page = reference('limits')

  test('has every limit with its value and a reason, and no other', () => {
    const listed = rows(section(page, '## What a person may meet'))

    expect(listed.map(([name, value]) => [name, numberOf(value)])).toEqual(Object.entries(limits))
    expect(listed.filter((cells) => (cells[3] ?? '') === '')).toEqual([])
  })

  test('has the values of the constants that lie elsewhere', () => {
    const listed = rows(section(page, '## Elsewhere'))
    const wrong = listed.filter(([file = '', name = '', value]) => constantIn(file, name) !== numberOf(value))

    expect(listed.length).toBeGreaterThan(0)
    expect(wrong).toEqual([])
  })

  test('has the bound of every field of the wire, and no other', () => {
    const listed = rows(section(page, '## Fields on the wire')).map(([message, field, maxBytes, maxCount]) => ({
      message,
      field,
      ...(maxBytes === '' ? {} : { maxBytes: numberOf(maxBytes) }),
      ...(maxCount === '' ? {} : { maxCount: numberOf(maxCount) }),
    }))
    const built = Object.entries(bounds).flatMap(([message, fields]) =>
      Object.entries(fields).map(([field, bound]) => ({ message, field, ...bound })),
    )

    expect(listed).toEqual(built)
  })
})

describe('docs/reference/wire.md', () => {
  test('has every prefix of the stores with its owner, and no other', () => {
    const listed = rows(section(reference('wire'), '### Keys of the stores')).map(([prefix, owner]) => [prefix, owner])

    expect(listed).toEqual(keyspace.map(({ prefix, owner }) => [prefix, owner]))
  })
})

describe('docs/reference/cli.md', () => {
  const page = reference('cli')
  const built = leaves(buildProgram(compose({ io: terminalIo({ isJson: true }), env: {} })))

  test('has every command in the order of the help, and no other', () => {
    const listed = [...page.matchAll(/^### (nfltr .+)$/gm)].map((match) => match[1])

    expect(listed).toEqual([...built.keys()])
  })

  test.each([...built])('has every flag of %s, and no other', (name, flags) => {
    expect(firstCells(section(page, `### ${name}`)).toSorted()).toEqual(flags.toSorted())
  })

  test('has every setting, and no other', () => {
    expect(firstCells(section(page, '## Where things are'))).toEqual(settingKeys)
  })
})

describe('docs/reference/tools.md', () => {
  const page = reference('tools')

  test('has the seven tools in order, and no other', () => {
    const listed = [...page.matchAll(/^## (\w+)$/gm)].map((match) => match[1])

    expect(listed).toEqual(toolNames)
  })

  test.each(toolNames)('has every argument of %s, and no other', (name) => {
    expect(firstCells(section(page, `## ${name}`))).toEqual(Object.keys(toolInputs[name].shape))
  })

  test.each(toolNames)('names every field of the answer of %s', (name) => {
    const text = section(page, `## ${name}`)
    const missing = Object.keys(toolOutputs[name].shape).filter((field) => !text.includes(`\`${field}\``))

    expect(missing).toEqual([])
  })
})

/** The value of a constant that is written as a number or a product of numbers; undefined where there is none. */
function constantIn(file: string, name: string): number | undefined {
  const found = new RegExp(`^(?:export )?const ${name}(?:: number)? = ([\\d_* ]+)$`, 'm').exec(read(file))?.[1]
  return found?.split('*').reduce((product, factor) => product * Number(factor.trim().replaceAll('_', '')), 1)
}

/** Every command that does something, by its whole name, with its own flags but those that all have. */
function leaves(command: Command, path = 'nfltr'): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>()
  for (const child of command.commands) {
    const name = `${path} ${child.name()}`
    if (child.commands.length > 0) for (const [leaf, flags] of leaves(child, name)) found.set(leaf, flags)
    else
      found.set(
        name,
        child.options.map((option) => option.flags).filter((flags) => !/^--(json|home)\b/.test(flags)),
      )
  }
  return found
}
