import { posix } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Room, rooms, roomsTable } from './support/rooms.ts'
import { files, imports, read, root, withoutComments } from './support/sources.ts'

const byName = new Map(rooms.map((room) => [room.name, room]))
const sources = files('{src,sim}/**/*.ts').filter((file) => !file.endsWith('.d.ts') && !file.endsWith('.test.ts'))

/** Names that would make the core depend on when or where it runs. */
const forbiddenInCore =
  /\b(?:Date|performance|Math\.random|crypto|setTimeout|setInterval|setImmediate|queueMicrotask|process|globalThis|console|fetch)\b/

function roomOf(file: string): string {
  const [top = '', second = ''] = file.split('/')
  return top === 'src' ? second.replace(/\.ts$/, '') : top
}

/** Why this import is not allowed, or undefined. */
function objection(room: Room, file: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) {
    const target = posix.normalize(posix.join(posix.dirname(file), specifier))
    const targetRoom = roomOf(target)
    if (targetRoom === room.name || room.rooms === '*' || room.rooms.includes(targetRoom)) return undefined
    return `${file}: room ${room.name} must not import room ${targetRoom} (${specifier})`
  }
  if (specifier.startsWith('node:')) {
    const name = specifier.slice('node:'.length)
    if (room.builtins === '*' || room.builtins.includes(name)) return undefined
    return `${file}: room ${room.name} must not import ${specifier}`
  }
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
  if (room.packages === '*' || room.packages.includes(name)) return undefined
  return `${file}: room ${room.name} must not import the package ${name}`
}

describe('architecture', () => {
  test('every folder of src is a room of the table', () => {
    const unknown = sources.filter((file) => !byName.has(roomOf(file)) && file !== 'src/index.ts')

    expect(unknown).toEqual([])
  })

  test('rooms import only what the table allows', () => {
    const objections = sources.flatMap((file) => {
      const room = byName.get(roomOf(file))
      if (room === undefined) return []
      return imports(read(file)).flatMap((specifier) => objection(room, file, specifier) ?? [])
    })

    expect(objections).toEqual([])
  })

  test('an import that breaks the table is noticed', () => {
    const core = byName.get('core')
    const hub = byName.get('hub')
    if (core === undefined || hub === undefined) throw new Error('the table has lost a room')

    expect(objection(core, 'src/core/a.ts', 'node:fs')).toContain('must not import node:fs')
    expect(objection(core, 'src/core/a.ts', '../ports/b.ts')).toContain('must not import room ports')
    expect(objection(hub, 'src/hub/a.ts', '../node/b.ts')).toContain('must not import room node')
    expect(objection(hub, 'src/hub/a/b.ts', '../../core/c.ts')).toBeUndefined()
    expect(objection(hub, 'src/hub/a.ts', '@libp2p/tcp')).toContain('must not import the package @libp2p/tcp')
    expect(imports("export { a } from './a.ts'\nconst b = await import('b')\n// from 'c'")).toEqual(['./a.ts', 'b'])
  })

  test('the core knows no clock, no chance and no process', () => {
    const found = files('src/core/**/*.ts').flatMap((file) =>
      withoutComments(read(file))
        // Words inside strings are messages, not code.
        .replace(/'(?:\\.|[^'\\\n])*'/g, "''")
        .split('\n')
        .flatMap((line, index) => (forbiddenInCore.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
    )

    expect(found).toEqual([])
  })

  test('the table in the documentation is this table', () => {
    const page = read('docs/internals/ARCHITECTURE.md')
    const copy = page.match(/<!-- rooms -->\n([\s\S]*?)\n<!-- \/rooms -->/)?.[1]

    expect(copy, `docs/internals/ARCHITECTURE.md of ${root}`).toBe(roomsTable())
  })
})
