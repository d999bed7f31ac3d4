import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { committed, read, root } from './support/sources.ts'

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

const manifest = JSON.parse(read('package.json')) as Manifest
const pages = committed().filter((file) => file.endsWith('.md') && !file.startsWith('test/fixtures/'))

/** Rules that are built, each of which has a row in `docs/internals/rules.md` with tests that try to break it. */
const builtRules = [
  1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29, 30, 31, 33, 34, 36,
  38, 39,
]

/** First cells of the table rows below a heading, without their backticks. */
function firstCells(page: string, heading: string): readonly string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(heading)) ?? ''
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1] ?? '')
}

/** Whether a text is the whole name of a test, or of a group of tests. */
function hasTest(source: string, name: string): boolean {
  return ["'", '"', '`'].some((quote) => source.includes(`${quote}${name}${quote}`))
}

describe('documentation', () => {
  test('every dependency has its line, and every line its dependency', () => {
    const page = read('docs/internals/dependencies.md')

    expect(firstCells(page, 'At run time')).toEqual(Object.keys(manifest.dependencies).sort())
    expect(firstCells(page, 'For development')).toEqual(Object.keys(manifest.devDependencies).sort())
  })

  test('every version is exact', () => {
    const versions = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })

    expect(versions.filter(([, version]) => !/^(?:npm:@?[\w/-]+@)?\d+\.\d+\.\d+$/.test(version))).toEqual([])
  })

  test('every link within the repository leads somewhere', () => {
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] ?? '')
        .filter((target) => !existsSync(join(root, dirname(page), target)))
        .map((target) => `${page}: ${target}`),
    )

    expect(broken).toEqual([])
  })

  test('decisions are numbered without a gap', () => {
    const numbers = pages
      .filter((page) => /^docs\/decisions\/\d{4}-[a-z0-9.-]+\.md$/.test(page))
      .map((page) => Number(page.slice('docs/decisions/'.length).slice(0, 4)))

    expect(numbers).toEqual(numbers.map((_, index) => index + 1))
  })

  test('every rule names tests, and every test it names is there', () => {
    const rows = [...read('docs/internals/rules.md').matchAll(/^\| (R\d+) \| .* \| (.*) \|$/gm)]
    const wrong = rows.flatMap(([, rule = '', cell = '']) => {
      const named = cell.split('<br>').map((part) => /^`(test\/[\w./-]+\.test\.ts)`: (.+)$/.exec(part))
      return named.flatMap((match) => {
        const [, file = '', name = ''] = match ?? []
        if (file === '' || !existsSync(join(root, file))) return [`${rule}: no such file in "${cell}"`]
        return hasTest(read(file), name) ? [] : [`${rule}: ${file} has no test "${name}"`]
      })
    })

    expect(rows.map(([, rule]) => rule)).toEqual(builtRules.map((number) => `R${number}`))
    expect(wrong).toEqual([])
  })
})
