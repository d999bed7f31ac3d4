import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { compose } from '../src/cli/compose.ts'
import { terminalIo } from '../src/cli/io.ts'
import { buildProgram } from '../src/cli/program.ts'
import { committed, read } from './support/sources.ts'

/** What people are told to type when something went wrong: nothing in it may be a command or flag that is not there. */
const pages = committed().filter((file) => /^docs\/(?:operating|guides)\/.*\.md$/.test(file))
const program = buildProgram(compose({ io: terminalIo({ isJson: true }), env: {} }))

/** Commands of a page, in blocks and in the text, without what a shell does with them. */
function commandsOf(page: string): readonly string[] {
  const text = read(page)
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) => block.split('\n'))
  const inline = [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
  return [...blocks, ...inline]
    .map((line) =>
      line
        .replace(/ #.*$/, '')
        .replace(/ (?:<|>|\|).*$/, '')
        .trim(),
    )
    .flatMap((line) => /^(?:[A-Z_]+=\S+ )*(nfltr .+)$/.exec(line)?.[1] ?? [])
}

/** What of a command line does not exist: a verb, or a flag. */
function unknownIn(line: string): readonly string[] {
  const words = line.split(/\s+/).slice(1)
  let command: Command = program
  while (words[0] !== undefined && command.commands.length > 0) {
    const next = command.commands.find((one) => one.name() === words[0] || one.aliases().includes(words[0] ?? ''))
    if (next === undefined) break
    command = next
    words.shift()
  }
  const isWhole = command.commands.length === 0 || words[0]?.startsWith('--') === true
  const flags = words.filter((word) => word.startsWith('--')).map((word) => word.replace(/=.*$/, ''))
  const known = [...command.options, ...program.options].flatMap(({ long }) => long ?? [])
  return [...(isWhole ? [] : [words[0] ?? '(no verb)']), ...flags.filter((flag) => !known.includes(flag))]
}

describe('docs/operating and docs/guides', () => {
  test('there are the five runbooks', () => {
    const names = pages.filter((page) => page.startsWith('docs/operating/'))

    expect(names).toEqual(
      ['damaged-store', 'full-disk', 'lost-laptop', 'lost-node', 'revoked-member'].map(
        (name) => `docs/operating/${name}.md`,
      ),
    )
  })

  test.each(pages)('%s names no command and no flag that is not there', (page) => {
    const lines = commandsOf(page)
    const wrong = lines.flatMap((line) => unknownIn(line).map((what) => `${line}: ${what}`))

    expect(lines.length).toBeGreaterThan(0)
    expect(wrong).toEqual([])
  })

  test('a command that is not there would be noticed', () => {
    expect(unknownIn('nfltr mesh forget vm1')).toEqual(['forget'])
    expect(unknownIn('nfltr node leave --now')).toEqual(['--now'])
    expect(unknownIn('nfltr node leave --force')).toEqual([])
  })
})
