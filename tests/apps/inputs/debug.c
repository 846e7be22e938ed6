/* The program that gdb stops, looks at and continues. */
#include <stdio.h>
#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

static struct node *list_make(int count) {
    if (count == 0)
        return NULL;
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        abort();
    node->value = count * count;
    node->next = list_make(count - 1);
    return node;
}

static int list_sum(const struct node *node) {
    return node == NULL ? 0 : node->value + list_sum(node->next);
}

int main(void) {
    struct node *list = list_make(200);
    printf("%d\n", list_sum(list));
    while (list != NULL) {
        struct node *next = list->next;
        free(list);
        list = next;
    }
    return 0;
}
