/* The program that gdb stops, looks at and continues. */
#include <stdio.h>
#include <stdlib.h>

struct debugged_node {
    int value;
    struct debugged_node *next;
};

static struct debugged_node *list_make(int count) {
    if (count == 0)
        return NULL;
    struct debugged_node *node = malloc(sizeof *node);
    if (node == NULL)
        abort();
    node->value = count * count;
    node->next = list_make(count - 1);
    return node;
}

static int list_sum(const struct debugged_node *node) {
    return node == NULL ? 0 : node->value + list_sum(node->next);
}

int main(void) {
    struct debugged_node *list = list_make(200);
    printf("%d\n", list_sum(list));
    while (list != NULL) {
        struct debugged_node *next = list->next;
        free(list);
        list = next;
    }
    return 0;
}
