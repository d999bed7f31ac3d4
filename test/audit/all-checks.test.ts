import { basename } from 'node:path'
import { describe, expect, test } from 'vitest'
import { allChecks } from '../../src/audit/all-checks.ts'
import { files, read } from '../support/sources.ts'

describe('the list of checks', () => {
  test('has every file of the folder, under its name', () => {
    const named = files('src/audit/checks/*.ts').map((file) => basename(file, '.ts'))

    expect(allChecks.map(({ name }) => name).sort()).toEqual(named)
  })

  test('has a row of the documentation for each, and none too many', () => {
    const section =
      read('docs/internals/testing.md')
        .split(/^## /m)
        .find((part) => part.startsWith('Checks')) ?? ''
    const rows = [...section.matchAll(/^\| `([a-z-]+)` \|(?!.*simulator's own)/gm)].map((match) => match[1])

    expect(rows.sort()).toEqual(allChecks.map(({ name }) => name).sort())
  })

  test('is silent about a history in which nothing happened', () => {
    const found: string[] = []
    for (const check of allChecks) check.begin().end?.(({ message }) => found.push(message))

    expect(found).toEqual([])
  })
})
