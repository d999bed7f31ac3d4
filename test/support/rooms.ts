/**
 * Which room of the code may import what: the one place where this is written down. `test/architecture.test.ts` holds the
 * code to it and keeps the copy in docs/internals/ARCHITECTURE.md equal.
 */
export interface Room {
  readonly name: string
  readonly decides: string
  /** Other rooms of src/; `'*'` for a room that puts the program together. */
  readonly rooms: readonly string[] | '*'
  /** Packages, by the name in package.json. */
  readonly packages: readonly string[] | '*'
  /** Modules of Node itself (`node:` left out). */
  readonly builtins: readonly string[] | '*'
}

const libp2p = [
  'libp2p',
  '@chainsafe/libp2p-noise',
  '@chainsafe/libp2p-yamux',
  '@libp2p/crypto',
  '@libp2p/interface',
  '@libp2p/peer-id',
  '@libp2p/peer-record',
  '@libp2p/tcp',
  '@libp2p/websockets',
  '@multiformats/multiaddr',
  'dns-packet',
  'ws',
] as const

export const rooms: readonly Room[] = [
  { name: 'core', decides: 'what happens; pure state machines', rooms: [], packages: [], builtins: [] },
  { name: 'ports', decides: 'what the core needs from the world', rooms: ['core'], packages: [], builtins: [] },
  { name: 'wire', decides: 'bytes between peers', rooms: ['core'], packages: ['@bufbuild/protobuf'], builtins: [] },
  {
    name: 'identity',
    decides: 'keys, memberships, invites',
    rooms: ['core', 'ports', 'wire'],
    packages: ['@libp2p/crypto', '@libp2p/interface', '@libp2p/peer-id', '@libp2p/peer-record'],
    builtins: ['crypto'],
  },
  {
    name: 'audit',
    decides:
      'whether a history kept the promises: one pure check per file, and what asks a hub and its nodes for theirs',
    rooms: ['core', 'wire'],
    packages: [],
    builtins: [],
  },
  {
    name: 'store',
    decides: 'what survives a crash',
    // Whole files, exclusive creation and liveness of a lock's holder are platform's; a second copy here would drift.
    rooms: ['core', 'ports', 'platform'],
    packages: ['level'],
    builtins: '*',
  },
  { name: 'platform', decides: 'files, clocks, processes', rooms: ['core', 'ports'], packages: [], builtins: '*' },
  { name: 'config', decides: 'settings and folders', rooms: ['core'], packages: ['zod'], builtins: [] },
  {
    name: 'runtime',
    decides: 'event in, persist, effects out',
    rooms: ['core', 'ports', 'wire', 'identity'],
    packages: [],
    builtins: [],
  },
  {
    name: 'mesh',
    decides: 'who is on the line',
    rooms: ['core', 'ports', 'wire', 'identity', 'config'],
    packages: libp2p,
    builtins: [],
  },
  {
    name: 'control',
    decides: 'the local interface of hub and node',
    rooms: ['core', 'ports', 'config'],
    packages: ['zod'],
    builtins: '*',
  },
  {
    name: 'keeper',
    decides: 'owns one running command',
    rooms: ['core', 'ports', 'wire', 'platform'],
    packages: [],
    builtins: '*',
  },
  {
    name: 'node',
    decides: 'slots, workspaces, agent programs',
    rooms: ['core', 'ports', 'wire', 'identity', 'runtime', 'config', 'control', 'keeper'],
    packages: [],
    builtins: [],
  },
  {
    name: 'hub',
    decides: 'placement, inbox, delivery',
    rooms: ['core', 'ports', 'wire', 'identity', 'runtime', 'config', 'control'],
    packages: [],
    builtins: [],
  },
  {
    name: 'mcp',
    decides: 'tools for the session',
    rooms: ['core', 'ports', 'control', 'config'],
    packages: ['@modelcontextprotocol/sdk', 'zod'],
    builtins: ['stream'],
  },
  { name: 'cli', decides: 'commands; puts everything together', rooms: '*', packages: '*', builtins: '*' },
  {
    name: 'sim',
    decides: 'the world in virtual time (folder sim/)',
    // The soak in sim/soak/ runs real processes, as the end-to-end tests do, and watches them from outside: by their
    // control sockets, their journals and the process table. The bench in sim/bench/ plays one side of a session over
    // the real mesh, so that it can tell what the other side takes.
    rooms: [
      'core',
      'ports',
      'wire',
      'identity',
      'audit',
      'runtime',
      'store',
      'hub',
      'node',
      'control',
      'keeper',
      'mesh',
      'platform',
      'test',
    ],
    packages: ['fast-check', 'level'],
    builtins: '*',
  },
]

/** The table as it stands in docs/internals/ARCHITECTURE.md. */
export function roomsTable(): string {
  const cell = (values: readonly string[] | '*', none: string): string =>
    values === '*' ? 'everything' : values.length === 0 ? none : values.map((value) => `\`${value}\``).join(', ')
  const rows = rooms.map((room) => {
    const builtins = room.builtins === '*' ? ['`node:`'] : room.builtins.map((name) => `\`node:${name}\``)
    const packages = room.packages === '*' ? ['everything'] : room.packages.map((name) => `\`${name}\``)
    const outside = [...builtins, ...packages].join(', ') || 'none'
    return `| \`${room.name}\` | ${room.decides} | ${cell(room.rooms, 'nothing')} | ${outside} |`
  })
  return ['| room | decides | may import | packages and Node |', '|---|---|---|---|', ...rows].join('\n')
}
