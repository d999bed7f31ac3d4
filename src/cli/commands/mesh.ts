import type { Command } from 'commander'
import type { Role } from '../../core/membership.ts'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { table } from '../table.ts'
import { collect, collectText, machineName, role, span } from '../values.ts'

type Document = Readonly<Record<string, unknown>>

/** What the mesh commands need of the world; `options.home` is where this machine's state lives. */
export interface MeshWorld {
  readonly io: CliIo
  create(options: { readonly home?: string; readonly name?: string }): Promise<Document>
  show(options: { readonly home?: string }): Promise<Document>
  members(options: { readonly home?: string }): Promise<{ readonly members: readonly Document[] }>
  invite(options: InviteOptions, tell: (event: InviteEvent) => void): Promise<void>
  /** @returns `undefined` when it was ended while it waited for an owner's answer */
  join(options: JoinOptions, tell: (event: KnockEvent) => void): Promise<Document | undefined>
  pending(options: { readonly home?: string }): Promise<Document>
  approve(options: ApproveOptions): Promise<Document>
  deny(options: { readonly home?: string; readonly fingerprint: string }): Promise<Document>
  revoke(options: MemberChoice): Promise<Document>
  renew(options: MemberChoice): Promise<Document>
  promote(options: MemberChoice): Promise<Document>
  exportKey(options: KeyOptions): Promise<Document>
  importKey(options: KeyOptions): Promise<Document>
  replaceKey(options: { readonly home?: string }): Promise<Document>
  serve(
    options: { readonly home?: string; readonly listen?: readonly string[] },
    ready: (document: Document) => void,
  ): Promise<void>
}

export interface InviteOptions {
  readonly home?: string
  readonly role?: Role
  readonly name?: string
  readonly replace?: string
  readonly ttl?: number
  /** False with `--no-wait`. */
  readonly wait: boolean
  readonly listen?: readonly string[]
}

export interface ApproveOptions {
  readonly home?: string
  readonly fingerprint: string
  readonly roles: readonly Role[]
  readonly name?: string
}

/** The machine asks to be let in and waits for an owner. */
export interface KnockEvent {
  readonly event: 'knocking'
  /** Of this machine: what the owner types after `nfltr mesh approve`. */
  readonly fingerprint: string
  readonly [field: string]: unknown
}

export interface JoinOptions {
  readonly home?: string
  readonly inviteFile?: string
  readonly peer?: readonly string[]
  /** Fingerprint of the mesh to knock at. */
  readonly mesh?: string
  readonly name?: string
  readonly listen?: readonly string[]
}

/** A member, named by a person. */
export interface MemberChoice {
  readonly home?: string
  /** Its name, or at least 8 hex digits of its fingerprint. */
  readonly name: string
}

export interface KeyOptions {
  readonly home?: string
  readonly file: string
  readonly passphraseFile?: string
  /** Of a machine that becomes a member by it. */
  readonly name?: string
}

export type InviteEvent =
  | { readonly event: 'invite'; readonly invite: string; readonly join_command: string; readonly expires_at: string }
  | { readonly event: 'joined'; readonly member: Document }
  | { readonly event: 'expired' }

/** `nfltr mesh create` — makes this machine owner of a new mesh. */
export function meshCreate(world: MeshWorld): Command {
  return leaf('create', 'make this machine the owner of a new mesh')
    .option('--name <name>', "this machine's name in the mesh; default: its host name", machineName)
    .action(async (_options: unknown, command: Command) => {
      const created = await world.create(command.optsWithGlobals())
      world.io.answer(
        created,
        `Mesh ${String(created['mesh_id'])} is yours; this machine is ${String(created['machine'])}.\nInvite the next machine: nfltr mesh invite`,
      )
    })
}

/** `nfltr mesh show` — what other machines need to know to reach this one. */
export function meshShow(world: MeshWorld): Command {
  return leaf('show', 'show this machine’s mesh, name and addresses').action(
    async (_options: unknown, command: Command) => {
      const shown = await world.show(command.optsWithGlobals())
      const rows = Object.entries(shown).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(' ') : String(value),
      ])
      world.io.answer(shown, table(['what', 'value'], rows))
    },
  )
}

/** `nfltr mesh members` */
export function meshMembers(world: MeshWorld): Command {
  return leaf('members', 'list the members of the mesh').action(async (_options: unknown, command: Command) => {
    const list = await world.members(command.optsWithGlobals())
    const rows = list.members.map((member) => [
      String(member['name']),
      String(member['state']),
      (member['roles'] as readonly string[]).join(','),
      String(member['expires_at']),
      String(member['fingerprint']),
    ])
    world.io.answer(list, table(['name', 'state', 'roles', 'expires', 'fingerprint'], rows))
  })
}

/** `nfltr mesh invite` — lets one machine in, and waits until it is. */
export function meshInvite(world: MeshWorld): Command {
  return leaf('invite', 'let one machine in')
    .option('--role <role>', 'what it may be: node, hub, observer, owner', role)
    .option('--name <name>', 'the name it gets; default: the one it asks for', machineName)
    .option('--replace <name>', 'the member whose name it takes over', machineName)
    .option('--ttl <span>', 'how long the invite lives', span({ minMs: 1, max: '365d' }))
    .option('--no-wait', 'print the invite and leave; another process of this home has to be up to honour it')
    .option('--listen <multiaddr>', 'where the joiner reaches this machine; may be repeated', collectText)
    .addHelpText('after', '\nExample:\n  $ nfltr mesh invite --role node > invite.txt')
    .action(async (_options: unknown, command: Command) => {
      await world.invite(command.optsWithGlobals(), (event) => {
        switch (event.event) {
          case 'invite':
            world.io.event(event, event.invite)
            world.io.note(
              `On the other machine, with that line in a file:\n  ${event.join_command}\nIt is good until ${event.expires_at}. Waiting…`,
            )
            return
          case 'joined':
            world.io.event(event)
            world.io.note(`${String(event.member['name'])} joined (${String(event.member['fingerprint'])}).`)
            return
          case 'expired':
            world.io.event(event)
            world.io.note('The invite expired unused.')
        }
      })
    })
}

/** `nfltr mesh revoke` — cuts a member off wherever it is heard of. */
export function meshRevoke(world: MeshWorld): Command {
  return leaf('revoke', 'take a member’s membership away, for good')
    .argument('<name>', 'the member: its name, or at least 8 digits of its fingerprint')
    .action(async (name: string, _options: unknown, command: Command) => {
      const revoked = await world.revoke({ ...command.optsWithGlobals(), name })
      const namesIn = (field: string): string =>
        (revoked[field] as readonly Document[]).map((member) => String(member['name'])).join(', ')
      const missing = namesIn('unconfirmed')
      world.io.answer(
        revoked,
        [
          `${String((revoked['revoked'] as Document)['name'])} is revoked. It is known on: ${namesIn('confirmed')}.`,
          ...(missing === ''
            ? []
            : [
                `Not reached yet: ${missing}. They hear it from the first member they meet; until then they may let it in.`,
              ]),
        ].join('\n'),
      )
    })
}

/** `nfltr mesh renew` — a new term before the old one runs out, or after. */
export function meshRenew(world: MeshWorld): Command {
  return leaf('renew', 'give a member a new term; members near their end get one by themselves')
    .argument('<name>', 'the member: its name, or at least 8 digits of its fingerprint')
    .action(async (name: string, _options: unknown, command: Command) => {
      const answer = await world.renew({ ...command.optsWithGlobals(), name })
      const { name: renewed, expires_at } = answer['renewed'] as Document
      const where = answer['delivered'] === true ? '' : ' It hears of it from the first member it meets.'
      world.io.answer(answer, `${String(renewed)} is a member until ${String(expires_at)}.${where}`)
    })
}

/** `nfltr mesh promote` — a further owner, with a certificate of its own. */
export function meshPromote(world: MeshWorld): Command {
  return leaf('promote', 'make a member an owner, who may invite, approve and revoke as you do')
    .argument('<name>', 'the member: its name, or at least 8 digits of its fingerprint')
    .action(async (name: string, _options: unknown, command: Command) => {
      const answer = await world.promote({ ...command.optsWithGlobals(), name })
      const promoted = String((answer['promoted'] as Document)['name'])
      const where = answer['delivered'] === true ? '' : ' It hears of it from the first member it meets.'
      world.io.answer(answer, `${promoted} is an owner of the mesh.${where}`)
    })
}

/** `nfltr mesh join` — takes a membership and exits: for hubs, observers and second owners. */
export function meshJoin(world: MeshWorld): Command {
  return leaf('join', 'become a member without being a node')
    .option('--invite-file <file>', 'the invite; - reads standard input; also NFLTR_INVITE or the prompt')
    .option('--peer <multiaddr>', 'an address of the issuer; may be repeated', collectText)
    .option(
      '--mesh <fingerprint>',
      'without an invite: the mesh to ask to be let in to; its owner sees it in mesh show',
    )
    .option('--name <name>', 'the name to ask for; default: the host name', machineName)
    .option('--listen <multiaddr>', 'an address to listen on; may be repeated', collectText)
    .action(async (_options: unknown, command: Command) => {
      let hasKnocked = false
      const joined = await world.join(command.optsWithGlobals(), (event) => {
        hasKnocked = true
        world.io.event(event, knockingText(event))
      })
      if (joined === undefined) return
      const text = `Joined mesh ${String(joined['mesh_id'])} as ${String(joined['machine'])}.`
      if (hasKnocked) world.io.event({ event: 'joined', ...joined }, text)
      else world.io.answer(joined, text)
    })
}

/** What a person reads while the machine waits to be let in. */
export function knockingText(event: KnockEvent): string {
  return `Waiting for an owner to answer. On the owner’s machine:\n  nfltr mesh approve ${event.fingerprint}`
}

/** `nfltr mesh pending` — machines that ask to be let in. */
export function meshPending(world: MeshWorld): Command {
  return leaf('pending', 'list the machines that ask to be let in').action(
    async (_options: unknown, command: Command) => {
      const found = await world.pending(command.optsWithGlobals())
      const rows = (found['pending'] as readonly Document[]).map((knock) => [
        String(knock['name'] ?? '-'),
        String(knock['fingerprint']),
        String(knock['address'] ?? '-'),
        String(knock['since']),
      ])
      world.io.answer(found, table(['asks to be called', 'fingerprint', 'address', 'since'], rows))
    },
  )
}

/** `nfltr mesh approve` — lets a machine in that asked, as what was typed here. */
export function meshApprove(world: MeshWorld): Command {
  return leaf('approve', 'let in a machine that asks to be')
    .argument('<fingerprint>', 'the machine: at least 32 digits of its fingerprint')
    .option('--role <role>', 'what it may be (node); may be repeated', collect(role))
    .option('--name <name>', 'the name it gets; default: the one that mesh pending shows', machineName)
    .action(async (fingerprint: string, _options: unknown, command: Command) => {
      const { role: chosen, ...options } = command.optsWithGlobals<{
        role?: readonly Role[]
        home?: string
        name?: string
      }>()
      const approved = await world.approve({ ...options, fingerprint, roles: chosen ?? ['node'] })
      const { name, roles } = approved['approved'] as Document
      world.io.answer(
        approved,
        `${String(name)} may join as ${(roles as readonly Role[]).join(', ')}; it does when it asks the next time.${
          approved['issuer_running'] === true ? '' : '\nNobody answers it now: run nfltr mesh serve.'
        }`,
      )
    })
}

/** `nfltr mesh deny` */
export function meshDeny(world: MeshWorld): Command {
  return leaf('deny', 'turn a machine away that asks to be let in')
    .argument('<fingerprint>', 'the machine: at least 8 digits of its fingerprint')
    .action(async (fingerprint: string, _options: unknown, command: Command) => {
      const denied = await world.deny({ ...command.optsWithGlobals(), fingerprint })
      world.io.answer(denied, 'It is told no when it asks the next time.')
    })
}

/** `nfltr mesh serve` — answers invites while nothing else of this owner runs. */
export function meshServe(world: MeshWorld): Command {
  return leaf('serve', 'answer invites while nothing else of this owner runs')
    .option('--listen <multiaddr>', 'an address to listen on; may be repeated', collectText)
    .action(async (_options: unknown, command: Command) => {
      await world.serve(command.optsWithGlobals(), (ready) =>
        world.io.event({ event: 'ready', ...ready }, `Issuing on ${(ready['listen'] as readonly string[]).join(' ')}.`),
      )
    })
}
