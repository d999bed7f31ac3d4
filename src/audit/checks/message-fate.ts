import type { Check, Fail, Watch } from '../check.ts'
import type { KeptEvent } from '../events/records.ts'
import type { AuditEvent } from '../events.ts'

/**
 * Every message that a hub took has a fate that is told and true (rule 22): a result says what became of it, or it became a
 * turn of its own; one that is told as not taken was not taken up in that turn, and one that is told as taken was.
 */
export const messageFate: Check = { name: 'message-fate', begin: () => new Fates() }

type Answered = Extract<KeptEvent, { type: 'message_answered' }>

interface Told {
  readonly taskId: string
  readonly state: 'taken' | 'not_taken' | 'interrupted'
  readonly agentId: string | undefined
}

class Fates implements Watch {
  readonly #answered: Answered[] = []
  readonly #told = new Map<string, Told>()
  readonly #briefs = new Set<string>()
  /** Attempts that took a text up, by its mark. */
  readonly #takenIn = new Map<string, string>()
  readonly #taskOf = new Map<string, string>()

  see(event: AuditEvent): void {
    switch (event.type) {
      case 'message_answered':
        this.#answered.push(event)
        break
      case 'brief_kept':
        this.#briefs.add(`${event.hubId} ${event.text}`)
        break
      case 'taken':
        this.#takenIn.set(event.mark, event.attemptId)
        break
      case 'agent_kept':
        for (const { taskId, attempts } of event.tasks)
          for (const { attemptId } of attempts) this.#taskOf.set(attemptId, taskId)
        break
      case 'entry_kept':
        for (const { messageId, state } of event.result?.messages ?? []) {
          const { taskId = '' } = event.result ?? {}
          this.#told.set(`${event.hubId} ${messageId}`, { taskId, state, agentId: event.agentId })
        }
        break
      default:
    }
  }

  end(fail: Fail): void {
    for (const { hubId, messageId, mark, text } of this.#answered) {
      const told = this.#told.get(`${hubId} ${messageId}`)
      if (told === undefined) {
        if (!this.#briefs.has(`${hubId} ${text}`))
          fail({ message: `nobody was told what became of the message ${mark}` })
        continue
      }
      const { agentId, state, taskId } = told
      const about = agentId === undefined ? {} : { agentId }
      const takenIn = this.#takenIn.get(mark)
      if (state === 'not_taken' && takenIn !== undefined && this.#taskOf.get(takenIn) === taskId)
        fail({ ...about, message: `the message ${mark} was told as not taken, and ${takenIn} took it up` })
      if (state === 'taken' && takenIn === undefined)
        fail({ ...about, message: `the message ${mark} was told as taken, and nobody took it up` })
    }
  }
}
